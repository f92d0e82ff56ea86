package store

import (
	"context"
	"path"
	"strings"

	"github.com/phos-gpu/phos/ckpt/image"
	"github.com/phos-gpu/phos/ckpt/store/contents"
)

// pagesPrefix begins the names of CRIU's files with the memory of processes.
const pagesPrefix = "pages-"

// memory returns the hashes of the contents of a generation that are memory, of GPUs or of
// processes, and nothing else.
func (d *Dir) memory(ctx context.Context, generation uint64) (map[image.Hash]struct{}, error) {
	m, err := d.Inspect(generation)
	if err != nil {
		return nil, err
	}
	reader, done, err := d.Reader()
	if err != nil {
		return nil, err
	}
	defer done()
	memory := map[image.Hash]struct{}{}
	if err := walk(ctx, reader, m, func(_ string, chunk image.Chunk) error {
		memory[chunk.Hash] = struct{}{}
		return nil
	}); err != nil {
		return nil, err
	}
	for _, root := range roots(m) {
		if err := forgetHead(reader, root, memory); err != nil {
			return nil, err
		}
	}
	return memory, nil
}

// forgetHead removes what is no memory: trees, and the files of CRIU that do not hold pages.
func forgetHead(reader *contents.Reader, root root, memory map[image.Hash]struct{}) error {
	if !root.tree || strings.HasPrefix(root.of, "file ") {
		return nil
	}
	hash, err := image.ParseHash(root.name)
	if err != nil {
		return err
	}
	tree, own, err := reader.TreeParts(hash)
	if err != nil {
		return err
	}
	for _, each := range own {
		delete(memory, each)
	}
	for i := range tree.Entries {
		entry := &tree.Entries[i]
		if root.of != "cpu" || strings.HasPrefix(path.Base(entry.Name), pagesPrefix) {
			continue
		}
		for _, chunk := range entry.Chunks {
			delete(memory, chunk.Hash)
		}
	}
	return nil
}
