package rootdir

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/phos-gpu/phos/internal/linux/proc"
)

// trap returns a root in which /link is an absolute symbolic link to a directory outside of it.
// Below the root, the same path is another directory. Both have a file "file".
func trap(t *testing.T) (root *Root, inside, outside string) {
	t.Helper()
	top := t.TempDir()
	outside = filepath.Join(t.TempDir(), "away")
	inside = filepath.Join(top, outside)
	for _, dir := range []string{outside, inside} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "file"), []byte(dir), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(outside, filepath.Join(top, "link")); err != nil {
		t.Fatal(err)
	}
	root, err := Open(top)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = root.Close() })
	return root, inside, outside
}

// TestLinkOutOfTheRoot: an absolute link in the path leads to the directory below the root.
func TestLinkOutOfTheRoot(t *testing.T) {
	root, inside, outside := trap(t)
	var want unix.Stat_t
	if err := unix.Stat(filepath.Join(inside, "file"), &want); err != nil {
		t.Fatal(err)
	}
	if got, err := root.Stat("/link/file"); err != nil || got.Ino != want.Ino || got.Dev != want.Dev {
		t.Errorf("stat: inode %d, %v, want %d", got.Ino, err, want.Ino)
	}
	if err := root.Link("/link/file", "/link/second"); err != nil {
		t.Error(err)
	}
	if content, err := os.ReadFile(filepath.Join(inside, "second")); err != nil || string(content) != inside {
		t.Errorf("second name: %q, %v", content, err)
	}
	if err := root.Unlink("/link/file"); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Join(inside, "file")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the name below the root: %v, want none", err)
	}
	entries, err := os.ReadDir(outside)
	if err != nil || len(entries) != 1 {
		t.Errorf("the directory outside has %v, %v", entries, err)
	}
	if entries, err := root.ReadDir("/link"); err != nil || len(entries) != 1 || entries[0].Name() != "second" {
		t.Errorf("entries %v, %v", entries, err)
	}
	if err := root.Access("/link/second", unix.R_OK); err != nil {
		t.Error(err)
	}
	if err := root.Access("/link/../../../../etc/passwd", unix.F_OK); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("above the root: %v", err)
	}
}

// TestRecycled: the pid names another process than the one that was meant.
func TestRecycled(t *testing.T) {
	self, err := proc.Of(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	root, err := Of(self)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := root.Stat("/proc"); err != nil || root.PID() != self.PID {
		t.Errorf("own root of pid %d: %v", root.PID(), err)
	}
	if err := root.Close(); err != nil {
		t.Error(err)
	}
	if _, err := root.Stat("/proc"); err == nil {
		t.Errorf("after close: %v", err)
	}
	self.StartTicks++
	if _, err := Of(self); !errors.Is(err, proc.ErrGone) {
		t.Errorf("recycled pid: %v, want ErrGone", err)
	}
}

// TestNil: a nil root is that of this process.
func TestNil(t *testing.T) {
	root, err := Of(proc.Identity{})
	if err != nil || root != nil {
		t.Fatalf("%v, %v", root, err)
	}
	name := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(name, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := root.Lstat(name); err != nil {
		t.Error(err)
	}
	if root.PID() != os.Getpid() || root.Close() != nil {
		t.Error("not this process's")
	}
}
