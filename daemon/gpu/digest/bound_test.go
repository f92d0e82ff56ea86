package digest

import (
	"crypto/aes"
	"crypto/cipher"
	"encoding/binary"
	"math/bits"
	"math/rand/v2"
	"testing"

	"github.com/phos-gpu/phos/daemon/gpu"
)

// TestFirstLevelInSmall checks lemmas 1 and 2 exhaustively for words of 3 bits, sums modulo 2^6,
// columns of two words, and two lanes: at most one key in 2^3 per lane makes two contents agree.
func TestFirstLevelInSmall(t *testing.T) {
	const words, keys = 8, 8 * 8 * 8
	sum := func(m, k, lane int) int {
		at := func(i int) int { return k >> (3 * (i + lane)) % 8 }
		return (m%8*at(0) + m/8*at(1)) % 64
	}
	for m := range words * words {
		for other := range m {
			var agree [4]int // by set of lanes that must agree
			for k := range keys {
				for set := range 4 {
					if (set&1 == 0 || sum(m, k, 0) == sum(other, k, 0)) && (set&2 == 0 || sum(m, k, 1) == sum(other, k, 1)) {
						agree[set]++
					}
				}
			}
			for set, n := range agree {
				if most := keys >> (3 * bits.OnesCount(uint(set))); n > most {
					t.Fatalf("contents %#o and %#o agree in lanes %b under %d of %d keys", m, other, set, n, keys)
				}
			}
		}
	}
}

// TestSecondLevelInSmall checks lemma 3 exhaustively for words of 2 bits and keys of 4: exactly one
// key in 4 makes two different inputs agree.
func TestSecondLevelInSmall(t *testing.T) {
	for x := range 16 {
		for other := range x {
			agree := 0
			for k := range 1 << 12 {
				high := func(x int) int { return (k + k>>4*(x&3) + k>>8*(x>>2)) >> 2 & 3 }
				if high(x) == high(other) {
					agree++
				}
			}
			if agree != 1<<10 {
				t.Errorf("%#x and %#x agree under %d of 4096 keys", x, other, agree)
			}
		}
	}
}

// TestEveryBit flips each bit of a content of some rows, and bits all over a chunk: all digests
// differ.
func TestEveryBit(t *testing.T) {
	f := New(gpu.DigestKey{1})
	for _, c := range []struct{ bytes, flips int }{{6*rowBytes + 100, 0}, {gpu.ChunkBytes, 1500}} {
		content := noise(uint64(c.bytes), c.bytes)
		r := rand.New(rand.NewPCG(3, 4))
		seen := map[gpu.Digest]int{f.Of(content): -1}
		flip := func(bit int) {
			content[bit/8] ^= 1 << (bit % 8)
			d := f.Of(content)
			content[bit/8] ^= 1 << (bit % 8)
			if first, found := seen[d]; found && first != bit {
				t.Errorf("%d bytes: flipping bit %d or bit %d gives the same digest %x", c.bytes, first, bit, d)
			}
			seen[d] = bit
		}
		if c.flips == 0 {
			for bit := range 8 * c.bytes {
				flip(bit)
			}
		}
		for range c.flips {
			flip(r.IntN(8 * c.bytes))
		}
	}
}

// TestBitsAreEven checks that over many keys, a flipped bit flips every bit of the digest about
// half of the time. Over many contents, a lane of 32 bits agrees about as often as expected by
// chance.
func TestBitsAreEven(t *testing.T) {
	const keys = 4000
	var flipped [128]int
	content := noise(9, 2*rowBytes)
	r := rand.New(rand.NewPCG(5, 6))
	for i := range keys {
		var key gpu.DigestKey
		binary.LittleEndian.PutUint32(key[:], uint32(i))
		f := New(key)
		before := f.Of(content)
		bit := r.IntN(8 * len(content))
		content[bit/8] ^= 1 << (bit % 8)
		for at, d := range f.Of(content) {
			for b := range 8 {
				flipped[8*at+b] += int(d^before[at]) >> b & 1
			}
		}
	}
	for bit, n := range flipped {
		if n < keys/2-190 || n > keys/2+190 { // six standard deviations of a fair coin
			t.Errorf("bit %d of the digest: flipped %d times of %d", bit, n, keys)
		}
	}

	const contents = 1 << 15 // expected number of agreeing pairs per lane: 0.125
	f := New(gpu.DigestKey{7})
	var seen [lanes]map[uint32]int
	agreed := 0
	for i := range contents {
		binary.LittleEndian.PutUint32(content[i%512&^3:], uint32(i))
		for lane, d := 0, f.Of(content); lane < lanes; lane++ {
			if seen[lane] == nil {
				seen[lane] = map[uint32]int{}
			}
			word := binary.LittleEndian.Uint32(d[4*lane:])
			agreed += seen[lane][word]
			seen[lane][word]++
		}
	}
	if agreed > 8 {
		t.Errorf("%d pairs of contents agree in a lane, want about 0.5", agreed)
	}
}

// TestPlain compares addRows with its definition for any number of rows.
func TestPlain(t *testing.T) {
	f := New(NewKey())
	for _, rows := range []int{1, 2, 15, 16, 17, stripRows} {
		content := noise(uint64(rows), rows*rowBytes)
		var plain, fast sums
		addRowsPlain(&plain, content, f.keys.first[:])
		addRows(&fast, content, f.keys.first[:])
		if plain != fast {
			t.Errorf("%d rows: the sums differ", rows)
		}
	}
}

// BenchmarkChunk measures the digest, a copy and GMAC.
func BenchmarkChunk(b *testing.B) {
	key, chunk := NewKey(), noise(1, gpu.ChunkBytes)
	into := make([]byte, gpu.ChunkBytes)
	block, _ := aes.NewCipher(key[:])
	gcm, _ := cipher.NewGCM(block)
	f := New(key)
	for _, c := range []struct {
		name string
		run  func()
	}{
		{"digest", func() { f.Of(chunk) }},
		{"copy", func() { copy(into, chunk) }},
		{"gmac", func() { gcm.Seal(into[:0], make([]byte, 12), nil, chunk) }},
	} {
		b.Run(c.name, func(b *testing.B) {
			b.SetBytes(gpu.ChunkBytes)
			for b.Loop() {
				c.run()
			}
		})
	}
}
