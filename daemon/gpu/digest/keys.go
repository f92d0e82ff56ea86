package digest

import (
	"crypto/aes"
	"crypto/cipher"
	"encoding/binary"

	"github.com/phos-gpu/phos/daemon/gpu"
)

// firstWords is the key words of the first level: four for each row of a strip, and one more for
// each lane beyond the first, and one that fills up 16 bytes.
const firstWords = stripRows*wordsPerColumn + lanes

// keys is the key stream of a key, in the order in which it is taken from the stream.
type keys struct {
	// first has the multipliers of words. Word w of row r has first[4r+w+lane], whatever its column
	// and strip.
	first [firstWords]uint32
	// second has the multipliers of the sums of columns: the column of a strip, counted through.
	second [strips * columns][lanes]struct{ low, high uint64 }
	last   [lanes]struct{ add, bytes uint64 }
}

// keysBytes is their length in the stream.
const keysBytes = firstWords*4 + strips*columns*lanes*16 + lanes*16

// streamOf returns the key stream: AES-128 in counter mode, the counter in big-endian order and
// from 0.
func streamOf(key gpu.DigestKey) []byte {
	block, err := aes.NewCipher(key[:])
	if err != nil {
		panic(err) // only a key of another length is refused
	}
	stream := make([]byte, keysBytes)
	cipher.NewCTR(block, make([]byte, aes.BlockSize)).XORKeyStream(stream, stream)
	return stream
}

func expand(key gpu.DigestKey) *keys {
	stream := streamOf(key)
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
