package digest

import (
	"crypto/rand"
	"encoding/binary"
	"fmt"

	"github.com/phos-gpu/phos/daemon/gpu"
)

// The shape of a content: 8 strips of 512 rows of 32 columns of 4 words.
const (
	wordsPerColumn = 4
	columns        = 32 // of a row: what a warp reads at once
	rowBytes       = columns * wordsPerColumn * 4
	stripRows      = 512
	stripBytes     = stripRows * rowBytes
	strips         = gpu.ChunkBytes / stripBytes
	lanes          = 4 // of 32 bits each, independent of each other
)

// NewKey returns a random key.
func NewKey() (key gpu.DigestKey) {
	_, _ = rand.Read(key[:]) // never returns an error
	return key
}

// Func digests contents under one key. It is safe for concurrent use.
type Func struct{ keys *keys }

// New returns the function of a key.
func New(key gpu.DigestKey) Func { return Func{expand(key)} }

// Of returns the digest of a content of at most one chunk.
func (f Func) Of(content []byte) (d gpu.Digest) {
	if len(content) > gpu.ChunkBytes {
		panic(fmt.Sprintf("digest of %d bytes, more than a chunk", len(content)))
	}
	var total [lanes]uint64
	for lane, k := range f.keys.last {
		total[lane] = k.add + k.bytes*uint64(len(content))
	}
	for strip := 0; strip*stripBytes < len(content); strip++ {
		var s sums
		s.addStrip(content[strip*stripBytes:min((strip+1)*stripBytes, len(content))], &f.keys.first)
		for column := range columns {
			k := &f.keys.second[strip*columns+column]
			for lane := range lanes {
				sum := s.of(column, lane)
				total[lane] += k[lane].low*(sum&0xffffffff) + k[lane].high*(sum>>32)
			}
		}
	}
	for lane, sum := range total {
		binary.LittleEndian.PutUint32(d[4*lane:], uint32(sum>>32))
	}
	return d
}
