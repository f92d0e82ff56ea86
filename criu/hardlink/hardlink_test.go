package hardlink

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/phos-gpu/phos/internal/linux/fsuid"
	"github.com/phos-gpu/phos/internal/linux/rootdir"
)

// TestLinks creates a removed name again, also over one that an interrupted dump has left.
func TestLinks(t *testing.T) {
	top := t.TempDir()
	root, err := rootdir.Open(top)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	user := fsuid.Rights{UID: 0} // a plain call for every user
	name, removed := filepath.Join(top, "sem.x"), filepath.Join(top, "sem.tmp (deleted)")
	if err := os.WriteFile(name, []byte("semaphore"), 0o600); err != nil {
		t.Fatal(err)
	}
	links := []Link{{Path: "/sem.tmp (deleted)", Name: "/sem.x"}}
	for range 2 {
		created, err := Create(user, root, links)
		if err != nil {
			t.Fatal(err)
		}
		defer func() {
			if err := created.Remove(); err != nil {
				t.Errorf("remove again: %v", err)
			}
		}()
		if content, err := os.ReadFile(removed); err != nil || string(content) != "semaphore" {
			t.Errorf("got %q, %v", content, err)
		}
	}
	created, err := Create(user, root, links)
	if err != nil {
		t.Fatal(err)
	}
	if err := created.Remove(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(removed); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("link still exists: %v", err)
	}
	// If one link fails, those before it are removed.
	if _, err := Create(user, root, append(links, Link{Path: "/other", Name: "/missing"})); err == nil {
		t.Error("linked a missing file")
	}
	if _, err := os.Stat(removed); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("link still exists after a failure: %v", err)
	}
}

// TestLinkOutOfTheRoot: a directory of the program is an absolute symbolic link, which means
// another directory on the host. Nothing there is removed or linked.
func TestLinkOutOfTheRoot(t *testing.T) {
	top, host := t.TempDir(), t.TempDir()
	inside := filepath.Join(top, host)
	if err := os.MkdirAll(inside, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{host, inside} {
		for _, name := range []string{"sem.x", "victim"} {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(dir), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := os.Symlink(host, filepath.Join(top, "shm")); err != nil {
		t.Fatal(err)
	}
	root, err := rootdir.Open(top)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	links, err := Create(fsuid.Rights{}, root, []Link{{Path: "/shm/victim", Name: "/shm/sem.x"}})
	if err != nil {
		t.Fatal(err)
	}
	if content, err := os.ReadFile(filepath.Join(inside, "victim")); err != nil || string(content) != inside {
		t.Errorf("below the root: %q, %v", content, err)
	}
	if err := links.Remove(); err != nil {
		t.Error(err)
	}
	info, err := os.Stat(filepath.Join(host, "victim"))
	if err != nil {
		t.Fatalf("the host's file: %v", err)
	}
	if other, err := os.Stat(filepath.Join(host, "sem.x")); err != nil || os.SameFile(info, other) {
		t.Errorf("the host's file was replaced by a link: %v", err)
	}
}
