package hardlink

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/phos-gpu/phos/internal/linux/fsuid"
)

// TestLinks creates a removed name again, also over one that an interrupted dump has left.
func TestLinks(t *testing.T) {
	top := t.TempDir()
	user := fsuid.Rights{UID: 0} // a plain call for every user
	name, removed := filepath.Join(top, "sem.x"), filepath.Join(top, "sem.tmp (deleted)")
	if err := os.WriteFile(name, []byte("semaphore"), 0o600); err != nil {
		t.Fatal(err)
	}
	links := []Link{{Path: "/sem.tmp (deleted)", Name: "/sem.x"}}
	for range 2 {
		created, err := Create(user, top, links)
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
	created, err := Create(user, top, links)
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
	if _, err := Create(user, top, append(links, Link{Path: "/other", Name: "/missing"})); err == nil {
		t.Error("linked a missing file")
	}
	if _, err := os.Stat(removed); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("link still exists after a failure: %v", err)
	}
}
