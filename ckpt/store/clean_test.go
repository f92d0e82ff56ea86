package store

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestClean(t *testing.T) {
	path := t.TempDir()
	d := initDir(t, path)
	put(t, d, small(1))
	put(t, d, small(2))
	overwrite(t, filepath.Join(path, tmpName, strings.Repeat("0", 32)+packSuffix), []byte("unfinished"))
	removed, err := d.Clean()
	if err != nil || !slices.Equal(removed.Generations, []uint64{1, 2}) || removed.Packs == 0 || removed.Bytes == 0 {
		t.Errorf("removed %+v, %v", removed, err)
	}
	if left, err := os.ReadDir(path); len(left) > 0 || err != nil {
		t.Errorf("left: %v, %v", left, err)
	}
	// The directory is reusable.
	put(t, initDir(t, path), small(3))
}

func TestCleanRefuses(t *testing.T) {
	for _, test := range []struct {
		name string
		lay  func(t *testing.T, path string)
		want error
	}{
		{"a foreign file", func(t *testing.T, path string) {
			overwrite(t, filepath.Join(path, "thesis.tex"), []byte("x"))
		}, ErrForeign},
		{"a file among the packs", func(t *testing.T, path string) {
			overwrite(t, filepath.Join(path, packsName, "notes"), []byte("x"))
		}, ErrForeign},
		{"a file in tmp", func(t *testing.T, path string) {
			overwrite(t, filepath.Join(path, tmpName, "notes"), []byte("x"))
		}, ErrForeign},
		{"a directory by the name of a pack", func(t *testing.T, path string) {
			if err := os.Mkdir(filepath.Join(path, packsName, strings.Repeat("0", 32)+packSuffix), 0o700); err != nil {
				t.Fatal(err)
			}
		}, ErrForeign},
		{"a reader", func(t *testing.T, path string) { initDir(t, path) }, ErrLocked},
		{"a writer", func(t *testing.T, path string) {
			transaction, err := initDir(t, path).Begin(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = transaction.Abort() })
		}, ErrLocked},
	} {
		t.Run(test.name, func(t *testing.T) {
			path := t.TempDir()
			d := initDir(t, path)
			put(t, d, small(1))
			test.lay(t, path)
			before := filesOf(t, path)
			if _, err := d.Clean(); !errors.Is(err, test.want) || !strings.Contains(err.Error(), path) {
				t.Errorf("%v, want %v", err, test.want)
			}
			same(t, before, filesOf(t, path))
			_ = os.Remove(filepath.Join(path, packsName, strings.Repeat("0", 32)+packSuffix))
			check(t, d, 1, small(1))
		})
	}
}

// TestAbortUndoesInit: a first checkpoint that fails leaves the directory empty.
func TestAbortUndoesInit(t *testing.T) {
	path := t.TempDir()
	d := initDir(t, path)
	transaction, err := d.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := transaction.NewPack(); err != nil {
		t.Fatal(err)
	}
	if err := transaction.Abort(); err != nil {
		t.Error(err)
	}
	if left, err := os.ReadDir(path); len(left) > 0 || err != nil {
		t.Errorf("left: %v, %v", left, err)
	}
}
