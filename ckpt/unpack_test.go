package ckpt

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/phos-gpu/phos/ckpt/image"
	"github.com/phos-gpu/phos/ckpt/store"
	"github.com/phos-gpu/phos/ckpt/store/contents"
)

// unpackNames unpacks small files with these names, and returns the directory.
func unpackNames(t *testing.T, names ...string) (string, error) {
	t.Helper()
	home, err := os.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer home.Close()
	dir, err := store.Init(home)
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	transaction, err := dir.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	pack, err := transaction.NewPack()
	if err != nil {
		t.Fatal(err)
	}
	defer pack.Close()
	writer := contents.NewWriter(pack, nil, contents.WriterOptions{})
	var tree image.Tree
	for _, name := range names {
		entry, err := writer.PutFile(t.Context(), "5/"+name, strings.NewReader("of "+name))
		if err != nil {
			t.Fatal(err)
		}
		tree.Entries = append(tree.Entries, entry)
	}
	if err := writer.Close(); err != nil {
		t.Fatal(err)
	}
	reader, err := contents.NewReader([]*os.File{pack})
	if err != nil {
		t.Fatal(err)
	}
	into, err := os.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer into.Close()
	files := unpacking{reader: reader, tree: &tree, root: 5, composed: func(string) bool { return false }}
	return into.Name(), files.into(t.Context(), into)
}

// TestUnpackParents: CRIU finds parent images in directories one below the other, and nothing is
// unpacked elsewhere.
func TestUnpackParents(t *testing.T) {
	names := []string{"a.img", "parent/a.img", "parent/parent/a.img", "parent/parent/b.img"}
	dir, err := unpackNames(t, names...)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if text, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(text) != "of "+name {
			t.Errorf("%s: %q, %v", name, text, err)
		}
	}
	for _, name := range []string{
		"parent/parent/parent/a.img", "parent/../a.img", "parent//a.img", "parent/", "sub/a.img", "../a.img", "parent/.a",
	} {
		if dir, err := unpackNames(t, name); !errors.Is(err, image.ErrMalformed) {
			t.Errorf("%s: unpacked into %s, %v", name, dir, err)
		}
	}
}
