package contents

import (
	"fmt"
	"io"

	"github.com/phos-gpu/phos/ckpt/image"
)

// Send writes a content with its record to a stream.
func (r *Reader) Send(h image.Hash, to io.Writer) error {
	stored, content := buffers.Get().(*[image.ChunkBytes]byte), buffers.Get().(*[image.ChunkBytes]byte)
	defer buffers.Put(stored)
	defer buffers.Put(content)
	record, err := r.stored(h, stored[:], content[:])
	if err != nil {
		return err
	}
	if _, err := to.Write(record.Encode()); err != nil {
		return err
	}
	_, err = to.Write(stored[:record.StoredBytes])
	return err
}

// CopyTo verifies a content, and stores it in another pack as it is.
func (r *Reader) CopyTo(w *Writer, h image.Hash) error {
	stored, content := buffers.Get().(*[image.ChunkBytes]byte), buffers.Get().(*[image.ChunkBytes]byte)
	defer buffers.Put(stored)
	defer buffers.Put(content)
	record, err := r.stored(h, stored[:], content[:])
	if err != nil {
		return err
	}
	return w.putStored(record, stored[:record.StoredBytes])
}

// stored reads and verifies a content in its stored form. It prefers the uncompressed form, because
// trees must be uncompressed.
func (r *Reader) stored(h image.Hash, stored, content []byte) (record image.Record, err error) {
	first, ok := r.places[h]
	if !ok {
		return record, r.missing(h)
	}
	for _, raw := range []bool{true, false} {
		for _, at := range append([]place{first}, r.more[h]...) {
			if (at.encoding == image.Raw) != raw {
				continue
			}
			whole := image.Place{
				Hash:         h,
				Offset:       at.offset,
				StoredBytes:  at.storedBytes,
				ContentBytes: at.contentBytes,
				Encoding:     at.encoding,
			}
			err = loadStored(r.packs[at.pack], whole, stored[:at.storedBytes], content[:at.contentBytes])
			if err == nil {
				return image.Record{
					Hash:         h,
					Encoding:     at.encoding,
					ContentBytes: at.contentBytes,
					StoredBytes:  at.storedBytes,
				}, nil
			}
		}
	}
	return record, err
}

// Receive verifies and stores a content whose record came from a stream. read reads the bytes that
// follow.
func (w *Writer) Receive(record image.Record, read func([]byte) error) error {
	stored, content := buffers.Get().(*[image.ChunkBytes]byte), buffers.Get().(*[image.ChunkBytes]byte)
	defer buffers.Put(stored)
	defer buffers.Put(content)
	if err := read(stored[:record.StoredBytes]); err != nil {
		return err
	}
	if !genuine(record.Hash, record.Encoding, stored[:record.StoredBytes], content[:record.ContentBytes]) {
		return fmt.Errorf("%w: content %s of the stream is damaged", image.ErrMalformed, record.Hash)
	}
	return w.putStored(record, stored[:record.StoredBytes])
}
