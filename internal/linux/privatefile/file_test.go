package privatefile

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/phos-gpu/phos/tests/harness"
)

func TestWriteAndRead(t *testing.T) {
	defer syscall.Umask(syscall.Umask(0)) // so that the modes come from this package
	path := filepath.Join(t.TempDir(), "made", "also", "key")
	for _, content := range []string{"first", "", "third, and longer"} {
		if err := Write(path, []byte(content)); err != nil {
			t.Fatal(err)
		}
		if got, err := Read(path, 100); err != nil || string(got) != content {
			t.Errorf("%q, %v, want %q", got, err, content)
		}
	}
	for at, want := range map[string]fs.FileMode{
		path: 0o600, filepath.Dir(path): fs.ModeDir | 0o700, filepath.Dir(filepath.Dir(path)): fs.ModeDir | 0o700,
	} {
		if info, err := os.Stat(at); err != nil || info.Mode() != want {
			t.Errorf("%s has mode %v, want %v", at, info.Mode(), want)
		}
	}
	left, err := os.ReadDir(filepath.Dir(path))
	if err != nil || len(left) != 1 {
		t.Errorf("%v, %v: want the file alone", left, err)
	}
}

// TestReplaced: a process that has the old file open does not see the new secret.
func TestReplaced(t *testing.T) {
	path := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(path, []byte("old"), 0o644); err != nil {
		t.Fatal(err)
	}
	open, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer open.Close()
	if err := Write(path, []byte("new")); err != nil {
		t.Fatal(err)
	}
	text := make([]byte, 10)
	if n, err := open.Read(text); err != nil || string(text[:n]) != "old" {
		t.Errorf("%q, %v", text[:n], err)
	}
	if got, err := Read(path, 10); err != nil || string(got) != "new" {
		t.Errorf("%q, %v", got, err)
	}
}

func TestRefused(t *testing.T) {
	folder := t.TempDir()
	file := func(name string, mode fs.FileMode) string {
		path := filepath.Join(folder, name)
		if err := errors.Join(os.WriteFile(path, []byte("secret"), mode), os.Chmod(path, mode)); err != nil {
			t.Fatal(err)
		}
		return path
	}
	pipe := filepath.Join(folder, "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]error{
		file("a", 0o644):               ErrExposed,
		file("b", 0o640):               ErrExposed,
		file("c", 0o620):               ErrExposed,
		file("d", 0o601):               ErrExposed,
		pipe:                           ErrUnusual,
		folder:                         ErrUnusual,
		filepath.Join(folder, "none"):  fs.ErrNotExist,
		filepath.Join(folder, "a/b"):   syscall.ENOTDIR,
		file("a file of many", 0o0600): nil,
	} {
		if text, err := Read(path, 6); !errors.Is(err, want) || (want != nil && !strings.Contains(err.Error(), path)) {
			t.Errorf("%s: %q, %v, want %v", path, text, err, want)
		}
	}
	if _, err := Read(file("long", 0o600), 5); !errors.Is(err, ErrUnusual) {
		t.Errorf("a long file: %v, want ErrUnusual", err)
	}
}

func TestAnotherUsers(t *testing.T) {
	harness.Need(t, "root", harness.Root())
	path := filepath.Join(t.TempDir(), "key")
	if err := errors.Join(Write(path, []byte("x")), os.Chown(path, 61241, 61241)); err != nil {
		t.Fatal(err)
	}
	if _, err := Read(path, 10); !errors.Is(err, ErrExposed) {
		t.Errorf("%v, want ErrExposed", err)
	}
}

// TestCannotWrite: the old content stays, and nothing is left beside it.
func TestCannotWrite(t *testing.T) {
	folder := t.TempDir()
	path := filepath.Join(folder, "key")
	if err := os.MkdirAll(filepath.Join(path, "in the way"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := Write(path, []byte("x")); err == nil {
		t.Error("a folder was replaced")
	}
	left, err := os.ReadDir(folder)
	if err != nil || len(left) != 1 {
		t.Errorf("%v, %v: want the folder alone", left, err)
	}
}
