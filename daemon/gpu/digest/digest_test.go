package digest

import (
	"crypto/aes"
	"encoding/binary"
	"math/big"
	"math/rand/v2"
	"testing"

	"github.com/phos-gpu/phos/daemon/gpu"
)

// byDocument computes the digest by the definition in DESIGN.md, with big integers and the plain
// block cipher, without code of this package.
func byDocument(key gpu.DigestKey, content []byte) (d gpu.Digest) {
	block, _ := aes.NewCipher(key[:])
	stream := func(at, n int) *big.Int { // n little-endian bytes of the key stream from byte at
		value := new(big.Int)
		for i := n - 1; i >= 0; i-- {
			var counter, out [16]byte
			binary.BigEndian.PutUint64(counter[8:], uint64((at+i)/16))
			block.Encrypt(out[:], counter[:])
			value.Lsh(value, 8).Or(value, big.NewInt(int64(out[(at+i)%16])))
		}
		return value
	}
	word := func(i int) *big.Int {
		value := new(big.Int)
		for b := 3; b >= 0; b-- {
			value.Lsh(value, 8)
			if at := 4*i + b; at < len(content) {
				value.Or(value, big.NewInt(int64(content[at])))
			}
		}
		return value
	}
	modulus, half := new(big.Int).Lsh(big.NewInt(1), 64), new(big.Int).Lsh(big.NewInt(1), 32)
	product := func(a, b *big.Int) *big.Int { return new(big.Int).Mul(a, b) }
	k := make([]*big.Int, 2051)
	for i := range k {
		k[i] = stream(4*i, 4)
	}
	var sums [4][256]*big.Int
	for j := range sums {
		for c := range sums[j] {
			sums[j][c] = new(big.Int)
		}
	}
	for i := 0; 4*i < len(content); i++ {
		strip, row, column, w := i>>16, i>>7&511, i>>2&31, i&3
		for j := range 4 {
			sum := sums[j][32*strip+column]
			sum.Add(sum, product(word(i), k[4*row+w+j]))
		}
	}
	for j := range 4 {
		total := stream(24592+16*j, 8)
		total.Add(total, product(stream(24600+16*j, 8), big.NewInt(int64(len(content)))))
		for c, sum := range sums[j] {
			sum.Mod(sum, modulus)
			high, low := new(big.Int).DivMod(sum, half, new(big.Int))
			total.Add(total, product(stream(8208+64*c+16*j, 8), low))
			total.Add(total, product(stream(8216+64*c+16*j, 8), high))
		}
		total.Mod(total, modulus).Rsh(total, 32)
		binary.LittleEndian.PutUint32(d[4*j:], uint32(total.Uint64()))
	}
	return d
}

func noise(seed uint64, bytes int) []byte {
	content, r := make([]byte, bytes), rand.New(rand.NewPCG(seed, 2))
	for i := range content {
		content[i] = byte(r.Uint32())
	}
	return content
}

func TestByDocument(t *testing.T) {
	for seed, bytes := range []int{0, 1, 3, 15, 16, 17, 511, 512, 4096, 5000, 262144, 262145, 600003, gpu.ChunkBytes} {
		key, content := NewKey(), noise(uint64(seed), bytes)
		if got, want := New(key).Of(content), byDocument(key, content); got != want {
			t.Errorf("%d bytes, key %x: got %x, want %x", bytes, key, got, want)
		}
	}
}

// TestExtremes checks the largest words and keys for overflow.
func TestExtremes(t *testing.T) {
	content := make([]byte, gpu.ChunkBytes)
	for i := range content {
		content[i] = 0xff
	}
	var f gpu.DigestKey
	if got, want := New(f).Of(content), byDocument(f, content); got != want {
		t.Errorf("got %x, want %x", got, want)
	}
}
