package checkpoints

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// TestIdentify checks that a directory is not taken for a removed one whose inode number it got,
// and that two paths of one directory are the same.
func TestIdentify(t *testing.T) {
	base := t.TempDir()
	path := filepath.Join(base, "image")
	made := func() (directoryID, uint64) {
		t.Helper()
		if err := os.Mkdir(path, 0o700); err != nil {
			t.Fatal(err)
		}
		dir, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		defer dir.Close()
		id, err := identify(dir)
		var info unix.Stat_t
		if err == nil {
			err = unix.Fstat(int(dir.Fd()), &info)
		}
		if err != nil {
			t.Fatal(err)
		}
		again, err := os.Open(filepath.Join(path, "..", "image"))
		if err != nil {
			t.Fatal(err)
		}
		defer again.Close()
		if same, err := identify(again); err != nil || same != id {
			t.Fatalf("the same directory: got %v and %v, %v", id, same, err)
		}
		return id, info.Ino
	}
	first, number := made()
	for range 1000 {
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		second, got := made()
		if got != number {
			first, number = second, got
			continue
		}
		if second == first {
			t.Errorf("inode %d: the new directory has the ID of the removed one: %v", number, first)
		}
		return
	}
	t.Skip("this file system gives no inode number twice")
}
