package store

import (
	"context"
	"fmt"
	"os"
	"slices"

	"github.com/phos-gpu/phos/ckpt/image"
	"github.com/phos-gpu/phos/ckpt/store/contents"
)

// maxParts is how many parts of a generation one problem names.
const maxParts = 64

// lose notes what a pack should have, by what is left of its index, when the pack itself cannot be
// trusted.
func (v *verifying) lose(problem int, pack *os.File) {
	for _, each := range contents.Remains(pack) {
		v.lost[each.Hash] = append(v.lost[each.Hash], problem)
	}
}

// generation looks at all that one generation needs. The error tells the first thing that is not
// there, and how many are not.
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

// touch says in the problems with a content that a generation needs it.
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

// touchTree does so for a tree that cannot be read: for all of it, or for those of its parts that
// are lost.
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
