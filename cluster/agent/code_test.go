package agent

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"

	"github.com/phos-gpu/phos/cluster/api"
	"github.com/phos-gpu/phos/tests/harness"
)

// pack returns entries as packed code. The content of a file is its name.
func pack(t *testing.T, entries ...tar.Header) []byte {
	t.Helper()
	var packed bytes.Buffer
	compressed, err := zstd.NewWriter(&packed)
	if err != nil {
		t.Fatal(err)
	}
	to := tar.NewWriter(compressed)
	for _, each := range entries {
		if each.Typeflag == tar.TypeReg {
			each.Size = int64(len(each.Name))
		}
		if err := to.WriteHeader(&each); err != nil {
			t.Fatal(err)
		}
		if each.Typeflag == tar.TypeReg {
			if _, err := io.WriteString(to, each.Name); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := errors.Join(to.Close(), compressed.Close()); err != nil {
		t.Fatal(err)
	}
	return packed.Bytes()
}

// file and symlink are entries of packed code.
func file(name string) tar.Header { return tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o644} }

func symlink(name, to string) tar.Header {
	return tar.Header{Typeflag: tar.TypeSymlink, Name: name, Linkname: to}
}

// TestCode: code is fetched once, and is in the working directory of each process that has it.
func TestCode(t *testing.T) {
	n := newNode(t)
	n.run()
	script := file("dir/run.sh")
	script.Mode = 0o4711
	packed := pack(t, file("data"), script, symlink("same", "data"))
	ref := n.keepCode(packed, packed)
	s := n.attached().welcome(1, hour, hour)
	for i, launch := range []string{"a", "b"} {
		order := n.shell(launch, `[ "$(cat data same)" = datadata ] && [ -x dir/run.sh ] && ! [ -u dir/run.sh ] && ! [ -x data ]`)
		order.Code = ref
		s.order(&api.Orders{Epoch: 1, Orders: []*api.Order{order}})
		if exits := s.inState(one(launch), "ended").GetExits(); len(exits) != 1 || exits[0].GetCode() != 0 || exits[0].GetError() != "" {
			t.Errorf("launch %d has ended with %v", i, exits)
		}
		n.keepCode(packed, nil) // the next one would get nothing
	}
}

// TestDamagedCode: code that the disk of a node has damaged is fetched again.
func TestDamagedCode(t *testing.T) {
	n := newNode(t)
	n.run()
	packed := pack(t, file("data"))
	ref := n.keepCode(packed, packed)
	s := n.attached().welcome(1, hour, hour)
	for _, launch := range []string{"before", "after"} {
		order := n.shell(launch, `[ "$(cat data)" = data ]`)
		order.Code = ref
		s.order(&api.Orders{Epoch: 1, Orders: []*api.Order{order}})
		if exits := s.inState(one(launch), "ended").GetExits(); len(exits) != 1 || exits[0].GetCode() != 0 || exits[0].GetError() != "" {
			t.Errorf("%s the damage it has ended with %v", launch, exits)
		}
		kept, err := filepath.Glob(filepath.Join(n.state, "code", "*"))
		if err != nil || len(kept) != 1 {
			t.Fatal(kept, err)
		}
		damaged := bytes.Clone(packed)
		damaged[len(damaged)/2]++
		if err := os.WriteFile(kept[0], damaged, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// TestBadCode: an attempt whose code is damaged or refused ends with the reason. Nothing is
// started, and once the leader lets go of it, nothing is left of it.
func TestBadCode(t *testing.T) {
	n := newNode(t)
	n.run()
	s := n.attached().welcome(1, hour, hour)
	good, outside := pack(t, file("data")), filepath.Join(t.TempDir(), "outside")
	for name, test := range map[string]struct {
		claimed, sent []byte
		want          string
	}{
		"others":    {good, pack(t, file("evil")), "fetch code: "},
		"torn":      {good, good[:len(good)-1], "fetch code: "},
		"longer":    {good[:len(good)-1], good, "fetch code: "},
		"plain":     {[]byte("no archive"), []byte("no archive"), "the packed code is refused"},
		"cut":       {good[:len(good)/2], good[:len(good)/2], "unpack code: "},
		"above":     {pack(t, file("../x")), pack(t, file("../x")), "it lies outside of the directory"},
		"by-link":   {pack(t, symlink("out", filepath.Dir(outside)), file("out/outside")), nil, "escapes"},
		"hard-link": {pack(t, tar.Header{Typeflag: tar.TypeLink, Name: "x", Linkname: "/etc/passwd"}), nil, "want files, directories"},
		"device":    {pack(t, tar.Header{Typeflag: tar.TypeChar, Name: "null", Devmajor: 1, Devminor: 3}), nil, "want files, directories"},
		"twice":     {pack(t, file("x"), file("x")), nil, "exists"},
	} {
		order := n.shell(name, forEver)
		if test.sent == nil {
			test.sent = test.claimed
		}
		order.Code = n.keepCode(test.claimed, test.sent)
		s.order(&api.Orders{Epoch: 1, Orders: []*api.Order{order}})
		exits := s.inState(one(name), "ended").GetExits()
		if len(exits) != 1 || !strings.Contains(exits[0].GetError(), test.want) {
			t.Errorf("%s: it has ended with %v, want %q", name, exits, test.want)
		}
	}
	if left := n.marked(); len(left) > 0 {
		t.Errorf("processes run: %v", left)
	}
	if _, err := os.Stat(outside); !os.IsNotExist(err) {
		t.Errorf("a file outside of the directory: %v", err)
	}
	if left, err := filepath.Glob(filepath.Join(n.state, "code", "upload-*")); err != nil || len(left) > 0 {
		t.Errorf("downloads are left: %v, %v", left, err)
	}
	s.order(&api.Orders{Epoch: 1, Complete: true})
	for _, dir := range []string{"work", "attempts", "images"} {
		harness.Eventually(t, dir+" is empty", func() bool {
			left, err := os.ReadDir(filepath.Join(n.state, dir))
			return err == nil && len(left) == 0
		})
	}
}
