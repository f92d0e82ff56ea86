package image

import (
	"bytes"
	"encoding/hex"
	"fmt"

	"github.com/zeebo/blake3"

	"github.com/phos-gpu/phos/ckpt/image/treehash"
)

// Sum returns the hash of a content. Empty contents and those of zeros have the zero Hash.
func Sum(content []byte) Hash {
	if Zeros(content) {
		return Hash{}
	}
	return treehash.Sum(content)
}

// ParseHash parses the output of String.
func ParseHash(text string) (Hash, error) {
	var h Hash
	if raw, err := hex.DecodeString(text); err != nil || len(raw) != len(h) {
		return Hash{}, fmt.Errorf("%w: %.80q is not a hash", ErrMalformed, text)
	} else {
		copy(h[:], raw)
	}
	return h, nil
}

// Compare orders hashes.
func (h Hash) Compare(other Hash) int { return bytes.Compare(h[:], other[:]) }

var zeros [4096]byte

// Zeros reports whether all bytes of a content are zero. It stops at the first one that is not.
func Zeros(content []byte) bool {
	for len(content) > len(zeros) {
		if !bytes.Equal(content[:len(zeros)], zeros[:]) {
			return false
		}
		content = content[len(zeros):]
	}
	return bytes.Equal(content, zeros[:len(content)])
}

// check returns the value of a header's check field: the first n bytes of the BLAKE3 of parts.
func check(n int, parts ...[]byte) []byte {
	h := blake3.New()
	for _, part := range parts {
		_, _ = h.Write(part)
	}
	return h.Sum(nil)[:n]
}
