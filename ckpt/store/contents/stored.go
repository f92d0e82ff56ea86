package contents

import (
	"bytes"
	"os"

	"github.com/klauspost/compress/zstd"
	"github.com/zeebo/blake3"

	"github.com/phos-gpu/phos/ckpt/image"
)

// loadStored reads and verifies the stored form of a content. content is a buffer for unpacking it.
func loadStored(pack *os.File, at image.Place, stored, content []byte) error {
	if err := readAt(pack, stored, int64(at.Offset)); err != nil {
		return err
	}
	if !genuine(at.Hash, at.Encoding, stored, content) {
		return damaged(pack, at.Hash, int64(at.Offset))
	}
	return nil
}

// genuine reports whether stored bytes have the content with this hash. content has the content's
// length.
func genuine(h image.Hash, encoding image.Encoding, stored, content []byte) bool {
	if encoding == image.Raw {
		return blake3.Sum256(stored) == h
	}
	if sum := blake3.Sum256(stored[image.SumBytes:]); !bytes.Equal(sum[:image.SumBytes], stored[:image.SumBytes]) {
		return false
	}
	return unpack(h, stored, content) == nil
}

// unpack decompresses a content and writes nothing beyond its length.
func unpack(h image.Hash, stored, content []byte) error {
	decoder := decoders.Get().(*zstd.Decoder)
	defer decoders.Put(decoder)
	content = content[:len(content):len(content)]
	out, err := decoder.DecodeAll(stored[image.SumBytes:], content[:0])
	if err == nil && (len(out) != len(content) || &out[0] != &content[0] || blake3.Sum256(out) != h) {
		err = image.ErrMalformed
	}
	return err
}
