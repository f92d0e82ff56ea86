package store

import (
	"context"
	"fmt"
	"os"
	"slices"

	"github.com/phos-gpu/phos/ckpt/image"
	"github.com/phos-gpu/phos/ckpt/store/contents"
)

// maxParts is how many parts of a generation one problem lists.
const maxParts = 64

// lose records the contents that a damaged pack should have, by the rest of its index.
func (v *verifying) lose(problem int, pack *os.File) {
	for _, each := range contents.Remains(pack) {
		v.lost[each.Hash] = append(v.lost[each.Hash], problem)
	}
}

// generation checks everything that one generation needs. The error names the first missing content
// and the number of others.
func (v *verifying) generation(ctx context.Context, reader *contents.Reader, m *image.Manifest) error {
	var first error
	missing := 0
	miss := func(err error) {
		missing++
		if first == nil {
			first = err
		}
	}
	for _, root := range roots(m) {
		if err := ctx.Err(); err != nil {
			return err
		}
		err := walkRoot(reader, root, func(of string, chunk image.Chunk) error {
			if err := v.needed(of, chunk); err != nil {
				miss(err)
				v.touch(chunk.Hash, m.Generation, of)
			}
			return nil
		})
		if err != nil {
			miss(fmt.Errorf("%s: %w", root.of, err))
			v.touchTree(reader, root, m.Generation)
		}
	}
	if missing > 1 {
		return fmt.Errorf("%w (and %d more)", first, missing-1)
	}
	return first
}

// touch adds a generation to all problems with a content that it needs.
func (v *verifying) touch(h image.Hash, generation uint64, of string) {
	for _, i := range v.lost[h] {
		touches := &v.found.Problems[i].Touches
		n := len(*touches)
		if n == 0 || (*touches)[n-1].Generation != generation {
			*touches, n = append(*touches, Touch{Generation: generation}), n+1
		}
		if at := &(*touches)[n-1]; len(at.Parts) < maxParts && !slices.Contains(at.Parts, of) {
			at.Parts = append(at.Parts, of)
		}
	}
}

// touchTree calls touch for a tree that cannot be read, or for its lost parts.
func (v *verifying) touchTree(reader *contents.Reader, root root, generation uint64) {
	hash, err := image.ParseHash(root.name)
	if err != nil {
		return
	}
	v.touch(hash, generation, root.of)
	raw, err := reader.Plain(hash)
	if err != nil || !image.IsList(raw) {
		return
	}
	list, err := image.DecodeList(raw)
	if err != nil {
		return
	}
	for _, part := range list.Parts {
		if _, good := v.good[part]; !good {
			v.touch(part, generation, root.of)
		}
	}
}
