package store

import (
	"context"

	"github.com/phos-gpu/phos/ckpt/image"
	"github.com/phos-gpu/phos/ckpt/store/contents"
)

// AddContents adds the hashes of all contents of an image to a set.
func (d *Dir) AddContents(to map[image.Hash]struct{}) error {
	reader, done, err := d.Reader()
	if err != nil {
		return err
	}
	defer done()
	for hash := range reader.All() {
		to[hash] = struct{}{}
	}
	return nil
}

// fill copies what a generation lacks from other images, into a pack of its own.
func (t *Transaction) fill(ctx context.Context, sealed []byte, others []*Dir) error {
	m, _, err := image.Inspect(sealed)
	if err != nil {
		return err
	}
	has, done, err := t.reader()
	if err != nil {
		return err
	}
	defer done()
	all, closeAll, err := t.reader(others...)
	if err != nil {
		return err
	}
	defer closeAll()
	pack, err := t.NewPack()
	if err != nil {
		return err
	}
	defer pack.Close() // the transaction syncs it
	writer := contents.NewWriter(pack, has, contents.WriterOptions{})
	err = walk(ctx, all, m, func(_ string, chunk image.Chunk) error {
		if writer.Has(chunk.Hash) {
			return nil
		}
		return all.CopyTo(writer, chunk.Hash)
	})
	if err != nil {
		return err
	}
	return writer.Close()
}
