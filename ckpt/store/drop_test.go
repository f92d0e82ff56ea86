package store

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/phos-gpu/phos/ckpt/image"
)

// TestDrop: a pack whose writer gave up is removed and does not affect the others.
func TestDrop(t *testing.T) {
	ctx, path := context.Background(), t.TempDir()
	d := initDir(t, path)
	transaction, err := d.Begin(ctx)
	if err != nil {
		t.Fatal(err)
	}
	given, err := transaction.NewPack()
	if err != nil {
		t.Fatal(err)
	}
	defer given.Close()
	if _, err := given.WriteAt(noise(1, 100_000), image.PackHeaderBytes); err != nil {
		t.Fatal(err)
	}
	known, closeKnown, err := d.Reader()
	if err != nil {
		t.Fatal(err)
	}
	defer closeKnown()
	m, err := fill(ctx, transaction, known, saved{memory: [][]byte{noise(2, image.ChunkBytes)}})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := transaction.Drop(given); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := os.Stat(given.Name()); err == nil {
		t.Error("dropped pack still exists")
	}
	sealed, err := image.SealManifest(m, testKey)
	if err != nil {
		t.Fatal(err)
	}
	if err := transaction.Commit(ctx, sealed); err != nil {
		t.Fatal(err)
	}
	packs, err := os.ReadDir(filepath.Join(path, "packs"))
	if err != nil || len(packs) == 0 {
		t.Fatal(packs, err)
	}
	for _, pack := range packs {
		if pack.Name() == filepath.Base(given.Name()) {
			t.Error("dropped pack is part of the image")
		}
	}
}

// TestUnlock: a child process that is being started holds all files and locks until it executes its
// program.
func TestUnlock(t *testing.T) {
	path := t.TempDir()
	d := initDir(t, path)
	put(t, d, small(1))
	transaction, err := d.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	inherited, err := unix.Dup(int(transaction.writer.lock.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(inherited)
	if err := transaction.Abort(); err != nil {
		t.Fatal(err)
	}
	again, err := d.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := again.Abort(); err != nil {
		t.Error(err)
	}
}
