package archive

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// TestUsedBytes checks that all files below a directory are counted, and nothing outside.
func TestUsedBytes(t *testing.T) {
	base := t.TempDir()
	outside, dir := filepath.Join(base, "outside"), filepath.Join(base, "dir")
	for _, path := range []string{outside, filepath.Join(dir, "a", "b")} {
		if err := os.MkdirAll(path, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	write := func(path string, kibibytes int) {
		t.Helper()
		if err := os.WriteFile(path, make([]byte, kibibytes<<10), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(filepath.Join(outside, "secret"), 4096)
	for i := range 2*batchFiles + 1 {
		write(filepath.Join(dir, "a", fmt.Sprint(i)), 4)
	}
	write(filepath.Join(dir, "a", "b", "last"), 8)
	for _, err := range []error{
		os.Symlink(outside, filepath.Join(dir, "link")), os.Symlink(filepath.Join(outside, "secret"),
			filepath.Join(dir, "file")),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	opened, err := os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer opened.Close()
	want := uint64(2*batchFiles+1)<<12 + 8<<10
	for range 2 { // a second look sees the same
		if got, err := UsedBytes(t.Context(), opened); err != nil || got != want {
			t.Errorf("got %d, %v, want %d", got, err, want)
		}
	}
	if err := os.MkdirAll(filepath.Join(dir, strings.Repeat("d/", maxDepth+1)), 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := UsedBytes(t.Context(), opened); !errors.Is(err, errDeep) {
		t.Errorf("deep directories: got %v, want errDeep", err)
	}
}

// TestUsedBytesRace looks at a directory of which a user makes a link to elsewhere, and back, all
// the time. Nothing outside may be counted.
func TestUsedBytesRace(t *testing.T) {
	base := t.TempDir()
	outside, dir := filepath.Join(base, "outside"), filepath.Join(base, "dir")
	part, hidden := filepath.Join(dir, "part"), filepath.Join(dir, "hidden")
	for _, path := range []string{outside, part} {
		if err := os.MkdirAll(path, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(outside, "secret"), make([]byte, 1<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	opened, err := os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer opened.Close()
	done := make(chan struct{})
	var user sync.WaitGroup
	user.Go(func() {
		for {
			select {
			case <-done:
				return
			default:
			}
			_ = os.Rename(part, hidden)
			_ = os.Symlink(outside, part)
			_ = os.Remove(part)
			_ = os.Rename(hidden, part)
		}
	})
	for range 20000 {
		if got, err := UsedBytes(t.Context(), opened); err != nil || got >= 1<<20 {
			t.Errorf("got %d, %v, want nothing from outside", got, err)
			break
		}
	}
	close(done)
	user.Wait()
}
