package store_test

import (
	"bytes"
	"context"
	"fmt"
	"log"
	"os"

	"github.com/phos-gpu/phos/ckpt/image"
	"github.com/phos-gpu/phos/ckpt/store"
	"github.com/phos-gpu/phos/ckpt/store/contents"
)

// write commits a generation with one file in the CPU half and returns its number.
func write(ctx context.Context, dir *store.Dir, key image.Key, content []byte) (uint64, error) {
	transaction, err := dir.Begin(ctx)
	if err != nil {
		return 0, err
	}
	defer func() { _ = transaction.Abort() }() // after Commit it does nothing
	pack, err := transaction.NewPack()
	if err != nil {
		return 0, err
	}
	defer pack.Close()
	writer := contents.NewWriter(pack, nil, contents.WriterOptions{})
	entry, err := writer.PutFile(ctx, "7/pages-1.img", bytes.NewReader(content))
	if err != nil {
		return 0, err
	}
	tree, err := writer.PutTree(ctx, &image.Tree{Entries: []image.Entry{entry}})
	if err != nil {
		return 0, err
	}
	if err := writer.Close(); err != nil {
		return 0, err
	}
	sealed, err := image.SealManifest(&image.Manifest{
		Version: image.Version, Generation: transaction.Generation(),
		CPU: image.CPUHalf{Tree: tree.String(), Bytes: entry.Bytes},
	}, key)
	if err != nil {
		return 0, err
	}
	return transaction.Generation(), transaction.Commit(ctx, sealed)
}

// read returns the file of a generation whose seal is valid.
func read(dir *store.Dir, key image.Key, generation uint64) ([]byte, error) {
	sealed, err := dir.Manifest(generation)
	if err != nil {
		return nil, err
	}
	manifest, _, err := image.OpenSealed(sealed, []image.Key{key})
	if err != nil {
		return nil, err
	}
	reader, closePacks, err := dir.Reader()
	if err != nil {
		return nil, err
	}
	defer closePacks()
	hash, err := image.ParseHash(manifest.CPU.Tree)
	if err != nil {
		return nil, err
	}
	tree, err := reader.Tree(hash)
	if err != nil {
		return nil, err
	}
	chunk := tree.Entries[0].Chunks[0]
	content := make([]byte, chunk.Bytes)
	return content, reader.ReadChunk(chunk, content)
}

// Example commits two generations of an image, opens the image again, and reads a chunk of each.
func Example() {
	path, err := os.MkdirTemp("", "image")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(path)
	directory, err := os.Open(path)
	if err != nil {
		log.Fatal(err)
	}
	defer directory.Close()
	ctx, key := context.Background(), image.GenerateKey()

	created, err := store.Init(directory)
	if err != nil {
		log.Fatal(err)
	}
	for _, content := range []string{"after step 1", "after step 2"} {
		if _, err := write(ctx, created, key, []byte(content)); err != nil {
			log.Fatal(err)
		}
	}
	created.Close()

	opened, err := store.Open(directory)
	if err != nil {
		log.Fatal(err)
	}
	defer opened.Close()
	generations, err := opened.Generations()
	if err != nil {
		log.Fatal(err)
	}
	for _, n := range generations {
		content, err := read(opened, key, n)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("generation %d: %s\n", n, content)
	}
	// Output:
	// generation 1: after step 1
	// generation 2: after step 2
}
