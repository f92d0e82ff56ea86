package images

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/phos-gpu/phos/cluster/agent/saver"
	"github.com/phos-gpu/phos/cluster/api"
)

// listing describes all that is below a directory, by find and sha256sum: kinds, modes, numbers of
// links, times and contents.
func listing(t *testing.T, dir string) string {
	t.Helper()
	command := exec.Command("/bin/sh", "-c", `find . -printf '%y %m %T@ %n %l %p\n' | grep -v '^s' | LC_ALL=C sort -k6
find . -type f -printf '%s ' -exec sha256sum {} \; | LC_ALL=C sort
find . -type f -samefile linked | LC_ALL=C sort`)
	command.Dir = dir
	out, err := command.Output()
	check(t, err)
	return string(out)
}

// none fails the test if something is left out.
func none(t *testing.T) func(string) {
	return func(what string) { t.Errorf("left out: %s", what) }
}

// TestTree: a directory comes back as it was, by what find says of it.
func TestTree(t *testing.T) {
	from, to := t.TempDir(), t.TempDir()
	script := `umask 022; mkdir -p a/b/c empty closed .hidden && echo text > a/b/c/file && head -c 300000 /dev/urandom > big &&
truncate -s 5M sparse && printf x | dd of=sparse bs=1 seek=3000000 conv=notrunc 2>/dev/null && : > nothing &&
echo l > linked && ln linked a/again && ln -s ../none a/dangling && ln -s /etc/passwd absolute && ln -s a/b loop &&
mkfifo -m 622 fifo && echo run > tool && chmod 4751 tool && chmod u-s tool && echo s > secret && chmod 400 secret &&
echo in > closed/in && touch -d '2001-02-03 04:05:06.789012345' a/b/c/file a/b closed && chmod 1500 closed &&
printf n > "$(printf 'odd \377\n name')"`
	command := exec.Command("/bin/sh", "-c", script)
	command.Dir = from
	if said, err := command.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, said)
	}
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	check(t, err)
	defer unix.Close(fd)
	check(t, unix.Bind(fd, &unix.SockaddrUnix{Name: filepath.Join(from, "socket")}))
	var packed bytes.Buffer
	check(t, pack([]string{from}, &packed, none(t)))
	check(t, os.Remove(filepath.Join(from, "socket")))
	check(t, os.Chtimes(from, time.Time{}, time.Unix(1e9, 5)))
	check(t, os.Chtimes(to, time.Time{}, time.Unix(1e9, 5)))
	packed.Reset()
	check(t, pack([]string{from}, &packed, none(t)))
	check(t, unpack([]string{to}, &packed))
	if got, want := listing(t, to), listing(t, from); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	var info unix.Stat_t
	check(t, unix.Stat(filepath.Join(to, "sparse"), &info))
	if info.Blocks*512 > 1<<20 {
		t.Errorf("a file with holes takes %d bytes", info.Blocks*512)
	}
}

// TestTrees: several directories do not mix, and what is between them is theirs alone.
func TestTrees(t *testing.T) {
	var from, to []string
	for i := range 12 { // with numbers of two digits
		from, to = append(from, t.TempDir()), append(to, t.TempDir())
		check(t, os.WriteFile(filepath.Join(from[i], "name"), fmt.Append(nil, i), 0o600))
	}
	var packed bytes.Buffer
	check(t, pack(from, &packed, none(t)))
	check(t, unpack(to, &packed))
	for i, dir := range to {
		if got, err := os.ReadFile(filepath.Join(dir, "name")); err != nil || string(got) != fmt.Sprint(i) {
			t.Errorf("directory %d has %q, %v", i, got, err)
		}
	}
}

// TestHostileTree: an archive of another node writes nothing outside of the directories.
func TestHostileTree(t *testing.T) {
	reg := func(name string) tar.Header {
		return tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o600, Size: 1}
	}
	link := func(kind byte, name, to string) tar.Header {
		return tar.Header{Typeflag: kind, Name: name, Linkname: to}
	}
	for name, headers := range map[string][]tar.Header{
		"above":               {reg("0/../../out")},
		"absolute":            {reg("/out")},
		"no directory":        {reg("1/out")},
		"negative":            {reg("-1/out")},
		"no number":           {reg("x/out")},
		"only a name":         {reg("out")},
		"through a link":      {link(tar.TypeSymlink, "0/l", "../.."), reg("0/l/out")},
		"through an absolute": {link(tar.TypeSymlink, "0/l", "OUTSIDE"), reg("0/l/out")},
		"over a link":         {link(tar.TypeSymlink, "0/l", "OUTSIDE/out"), reg("0/l")},
		"hard link outside":   {link(tar.TypeLink, "0/l", "0/../../secret")},
		"hard link by a link": {link(tar.TypeSymlink, "0/l", "OUTSIDE"), link(tar.TypeLink, "0/m", "0/l/secret")},
		"mode by a link":      {link(tar.TypeSymlink, "0/l", "OUTSIDE"), {Typeflag: tar.TypeDir, Name: "0/l", Mode: 0o777}},
		"device":              {{Typeflag: tar.TypeChar, Name: "0/null", Devmajor: 1, Devminor: 3}},
		"fifo outside":        {link(tar.TypeSymlink, "0/l", "OUTSIDE"), {Typeflag: tar.TypeFifo, Name: "0/l/out"}},
	} {
		t.Run(name, func(t *testing.T) {
			outside, to := t.TempDir(), filepath.Join(t.TempDir(), "deep", "work")
			check(t, os.MkdirAll(to, 0o700))
			check(t, os.WriteFile(filepath.Join(outside, "secret"), nil, 0o600))
			var packed bytes.Buffer
			w := tar.NewWriter(&packed)
			for _, h := range headers {
				h.Linkname = strings.Replace(h.Linkname, "OUTSIDE", outside, 1)
				check(t, w.WriteHeader(&h))
				if h.Size > 0 {
					_, err := w.Write([]byte("x"))
					check(t, err)
				}
			}
			check(t, w.Close())
			if err := unpack([]string{to}, &packed); err == nil {
				t.Error("it was unpacked")
			}
			above, err := os.ReadDir(filepath.Dir(filepath.Dir(to)))
			check(t, err)
			left, err := os.ReadDir(outside)
			check(t, err)
			info, err := os.Stat(outside)
			check(t, err)
			if len(above) != 1 || len(left) != 1 || info.Mode().Perm() == 0o777 {
				t.Errorf("outside are %v and %v, mode %v", above, left, info.Mode())
			}
		})
	}
}

// TestCutTree: an archive that is cut short anywhere is no whole one.
func TestCutTree(t *testing.T) {
	from := t.TempDir()
	for i := range 3 {
		check(t, os.WriteFile(filepath.Join(from, fmt.Sprint(i)), bytes.Repeat([]byte("x"), 700), 0o600))
	}
	var packed bytes.Buffer
	check(t, pack([]string{from}, &packed, none(t)))
	packed.WriteString(endMark)
	whole := packed.Bytes()
	for cut := 0; cut < len(whole); cut += 100 {
		rest := bytes.NewReader(whole[:cut])
		err := unpack([]string{t.TempDir()}, rest)
		if err == nil {
			err = expectEnd(rest)
		}
		if err == nil {
			t.Errorf("%d bytes of %d are taken for all", cut, len(whole))
		}
	}
	longer := append(bytes.Clone(whole), 'x')
	rest := bytes.NewReader(longer)
	check(t, unpack([]string{t.TempDir()}, rest))
	if err := expectEnd(rest); !errors.Is(err, ErrCutShort) {
		t.Errorf("more than all: %v", err)
	}
}

// TestChangingTree: a file that becomes shorter while it is read is found. What is removed is not
// missed.
func TestChangingTree(t *testing.T) {
	from := t.TempDir()
	check(t, os.WriteFile(filepath.Join(from, "first"), bytes.Repeat([]byte("x"), 1<<20), 0o600))
	check(t, os.WriteFile(filepath.Join(from, "second"), bytes.Repeat([]byte("x"), 1<<20), 0o600))
	change := func(name string, do func(path string) error) error {
		to := &watching{name: []byte(name), do: func() { check(t, do(filepath.Join(from, name))) }}
		return pack([]string{from}, to, none(t))
	}
	check(t, change("first", func(string) error { return os.Remove(filepath.Join(from, "second")) }))
	if err := change("first", func(path string) error { return os.Truncate(path, 10) }); !errors.Is(err, errChanged) {
		t.Errorf("got %v", err)
	}
}

// watching does something once when a name has been written.
type watching struct {
	name []byte
	do   func()
}

// Write implements io.Writer.
func (w *watching) Write(part []byte) (int, error) {
	if w.do != nil && bytes.Contains(part, w.name) {
		w.do()
		w.do = nil
	}
	return len(part), nil
}

// TestUnreadable: what the owner may not read is left out, and told.
func TestUnreadable(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root: acts as another user")
	}
	p := start(t, 1)
	for _, dir := range []string{p.image, p.work, p.target} {
		for path := dir; path != "/tmp"; path = filepath.Dir(path) {
			check(t, os.Chmod(path, 0o755))
		}
		check(t, exec.Command("chown", "-R", "65534:65534", dir).Run())
	}
	check(t, os.Mkdir(filepath.Join(p.work, "closed"), 0o700))
	check(t, os.WriteFile(filepath.Join(p.work, "closed", "in"), nil, 0o600))
	check(t, os.WriteFile(filepath.Join(p.work, "secret"), []byte("root's"), 0o600))
	user := saver.Owner{UID: 65534, GID: 65534}
	p.lend = func(*api.MayFetchRequest) (Loan, error) {
		return Loan{As: user, Order: SendOrder{Dir: p.image, Generation: 1, Work: []string{p.work}}}, nil
	}
	check(t, p.fetch(p.address))
	p.hasNote("kept")
	for _, name := range []string{"secret", "closed/in"} {
		if _, err := os.Stat(filepath.Join(p.works, name)); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s came: %v", name, err)
		}
	}
}
