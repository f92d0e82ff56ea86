package digest

import (
	"crypto/aes"
	"crypto/cipher"
	"encoding/binary"

	"github.com/phos-gpu/phos/daemon/gpu"
)

// firstWords is the number of key words of the first level: four for each row of a strip, one for
// each lane beyond the first, and one for padding to 16 bytes.
const firstWords = stripRows*wordsPerColumn + lanes

// keys is the expanded key stream of a key, in the order of the stream.
type keys struct {
	// first has the multipliers of words. Word w of row r has first[4r+w+lane], in every column and
	// strip.
	first [firstWords]uint32
	// second has the multipliers of column sums. Columns are numbered across strips.
	second [strips * columns][lanes]struct{ low, high uint64 }
	last   [lanes]struct{ add, bytes uint64 }
}

// keysBytes is the length of the key stream in bytes.
const keysBytes = firstWords*4 + strips*columns*lanes*16 + lanes*16

// keyStream returns the key stream: AES-128 in counter mode, with a big-endian counter from 0.
func keyStream(key gpu.DigestKey) []byte {
	block, err := aes.NewCipher(key[:])
	if err != nil {
		panic(err) // only a key of another length is refused
	}
	stream := make([]byte, keysBytes)
	cipher.NewCTR(block, make([]byte, aes.BlockSize)).XORKeyStream(stream, stream)
	return stream
}

// expand reads the key stream into keys.
func expand(key gpu.DigestKey) *keys {
	stream := keyStream(key)
	word := func() (w uint64) {
		w, stream = binary.LittleEndian.Uint64(stream), stream[8:]
		return w
	}
	k := new(keys)
	for i := 0; i < firstWords; i += 2 {
		w := word()
		k.first[i], k.first[i+1] = uint32(w), uint32(w>>32)
	}
	for column := range k.second {
		for lane := range lanes {
			k.second[column][lane].low = word()
			k.second[column][lane].high = word()
		}
	}
	for lane := range lanes {
		k.last[lane].add, k.last[lane].bytes = word(), word()
	}
	return k
}
