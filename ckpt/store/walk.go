package store

import (
	"context"
	"fmt"

	"github.com/phos-gpu/phos/ckpt/image"
	"github.com/phos-gpu/phos/ckpt/store/contents"
)

// root is a content that a manifest refers to.
type root struct {
	of   string
	name string
	// tree is set if the content is a tree.
	tree bool
}

// roots lists the contents that a manifest refers to, and what each is for.
func roots(m *image.Manifest) (all []root) {
	for _, process := range m.Processes {
		if process.GPU != nil {
			all = append(all, root{fmt.Sprintf("gpu of pid %d", process.PID), process.GPU.Tree, true})
		}
	}
	if m.CPU.Tree != "" {
		all = append(all, root{"cpu", m.CPU.Tree, true})
	}
	for _, file := range m.Files {
		if file.Hash == "" { // too large to be saved: only its length is known
			continue
		}
		all = append(all, root{"file " + file.Path, file.Hash, file.Bytes > image.ChunkBytes})
	}
	return all
}

// walk visits all contents that a manifest needs, trees before their chunks. A content may be
// visited more than once. Zeros are skipped.
func walk(
	ctx context.Context,
	reader *contents.Reader,
	m *image.Manifest,
	visit func(of string, chunk image.Chunk) error,
) error {
	for _, root := range roots(m) {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := walkRoot(reader, root, visit); err != nil {
			return fmt.Errorf("%s: %w", root.of, err)
		}
	}
	return nil
}

// walkRoot visits the contents of one root.
func walkRoot(reader *contents.Reader, root root, visit func(of string, chunk image.Chunk) error) error {
	hash, err := image.ParseHash(root.name)
	if err != nil {
		return err
	}
	if !root.tree {
		if hash.IsZero() {
			return nil
		}
		return visit(root.of, image.Chunk{Hash: hash})
	}
	tree, own, err := reader.TreeParts(hash)
	if err != nil {
		return err
	}
	for _, hash := range own {
		if err := visit(root.of, image.Chunk{Hash: hash}); err != nil {
			return err
		}
	}
	for i := range tree.Entries {
		entry := &tree.Entries[i]
		for _, chunk := range entry.Chunks {
			if chunk.Hash.IsZero() {
				continue
			}
			if err := visit(root.of+", "+entry.Name, chunk); err != nil {
				return err
			}
		}
	}
	return nil
}
