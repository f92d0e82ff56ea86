package imagecmd

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/phos-gpu/phos/daemon/api"
)

// TestImages finds images below directories, each once, without phosd.
func TestImages(t *testing.T) {
	fixTime(t)
	t.Setenv(api.SocketVariable, filepath.Join(t.TempDir(), "none.sock"))
	top := t.TempDir()
	for _, name := range []string{"a", "deep/er/b", "damaged"} {
		if err := os.MkdirAll(filepath.Join(top, filepath.Dir(name)), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.CopyFS(filepath.Join(top, name), os.DirFS(goldenImage)); err != nil {
			t.Fatal(err)
		}
	}
	manifests, err := filepath.Glob(filepath.Join(top, "damaged/generations/*"))
	if err != nil || len(manifests) == 0 {
		t.Fatal(manifests, err)
	}
	for _, manifest := range manifests {
		if err := os.WriteFile(manifest, []byte("nonsense"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	// A link to an image is followed only if the user names it, and a loop ends.
	for link, target := range map[string]string{"loop": "..", "other": t.TempDir()} {
		if err := os.Symlink(target, filepath.Join(top, link)); err != nil {
			t.Fatal(err)
		}
	}
	list := func(dirs ...string) (views []imageView) {
		t.Helper()
		text, err := output(func(out Output) error { return Images(t.Context(), out, dirs) }, true)
		if err == nil {
			err = json.Unmarshal([]byte(text), &views)
		}
		if err != nil {
			t.Fatal(err)
		}
		return views
	}
	var dirs []string
	for _, v := range list(top, filepath.Join(top, "a"), filepath.Join(top, "loop")) {
		name, _ := filepath.Rel(top, v.Dir)
		dirs = append(dirs, name)
		if v.Restorable != nil || (v.Reason == "") == (name == "damaged") || len(v.Generations) != 2 {
			t.Errorf("%s: got %+v", name, v)
		}
	}
	if want := []string{"a", "deep/er/b", "damaged"}; !slices.Equal(dirs, want) {
		t.Errorf("got %q, want %q", dirs, want)
	}
	if got := list(t.TempDir()); len(got) != 0 {
		t.Errorf("empty directory: got %+v", got)
	}
}

// TestImagesRefuses: without phosd and without a directory there is nothing to list, and a
// directory that is missing is named.
func TestImagesRefuses(t *testing.T) {
	t.Setenv(api.SocketVariable, filepath.Join(t.TempDir(), "none.sock"))
	if _, err := output(func(out Output) error { return Images(t.Context(), out, nil) }, false); !errors.Is(
		err,
		api.ErrNoDaemon,
	) {
		t.Errorf("got %v, want %v", err, api.ErrNoDaemon)
	}
	var out, warnings bytes.Buffer
	err := Images(t.Context(), Output{Out: &out, Err: &warnings}, []string{"/nowhere", t.TempDir()})
	if !errors.Is(err, ErrNotSearched) || !strings.Contains(warnings.String(), "search /nowhere") ||
		out.String() != "no images\n" {
		t.Errorf("got %v, %q, %q", err, warnings.String(), out.String())
	}
}

func TestKnownPlaces(t *testing.T) {
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	program := func(last, policy string) *api.Program {
		return &api.Program{Pid: uint32(os.Getpid()), CheckpointDir: last, Policy: &api.Policy{Dir: policy}}
	}
	got := knownPlaces(&api.StatusReply{
		Daemon: &api.DaemonStatus{CheckpointDir: ""},
		Programs: []*api.Program{
			program("/data/last", "/data/ckpt"),
			program("", "ckpt/{job}/{rank}"),
			program("", "/data/ckpt-{rank}"),
		},
	})
	want := []place{{"/data/last", 0}, {"/data/ckpt", 0}, {filepath.Join(here, "ckpt"), 2}, {"/data", 1}}
	if !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	shared := knownPlaces(&api.StatusReply{
		Daemon:   &api.DaemonStatus{CheckpointDir: "/srv/ckpt"},
		Programs: []*api.Program{program("", "/srv/ckpt")},
	})
	if len(shared) != 1 || !strings.HasPrefix(shared[0].dir, "/srv/ckpt") {
		t.Errorf("got %v, want one place in /srv/ckpt", shared)
	}
}
