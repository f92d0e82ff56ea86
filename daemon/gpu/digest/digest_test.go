package digest

import (
	"crypto/aes"
	"math/rand/v2"
	"testing"

	"github.com/phos-gpu/phos/daemon/gpu"
)

// multiply is the product in GF(2^128) as GCM defines it, bit by bit.
func multiply(x, y [16]byte) (z [16]byte) {
	v := y
	for i := range 128 {
		if x[i/8]>>(7-i%8)&1 == 1 {
			for j := range z {
				z[j] ^= v[j]
			}
		}
		low := v[15] & 1
		for j := 15; j > 0; j-- {
			v[j] = v[j]>>1 | v[j-1]<<7
		}
		v[0] >>= 1
		if low == 1 {
			v[0] ^= 0xe1
		}
	}
	return z
}

// TestAgainstDefinition computes the digest as doc.go says it, in the plainest way.
func TestAgainstDefinition(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, bytes := range []int{0, 1, 15, 16, 17, 4096, 5000} {
		key := NewKey()
		content := make([]byte, bytes)
		for i := range content {
			content[i] = byte(r.Uint32())
		}
		block, _ := aes.NewCipher(key[:])
		var point, sum, last, mask [16]byte
		block.Encrypt(point[:], point[:])
		for at := 0; at < bytes; at += 16 {
			for j := range min(16, bytes-at) {
				sum[j] ^= content[at+j]
			}
			sum = multiply(sum, point)
		}
		for j := range 8 {
			last[j] = byte(uint64(bytes) * 8 >> (56 - 8*j))
		}
		for j := range sum {
			sum[j] ^= last[j]
		}
		sum = multiply(sum, point)
		mask[15] = 1
		block.Encrypt(mask[:], mask[:])
		for j := range sum {
			sum[j] ^= mask[j]
		}
		if got := New(key).Of(content); got != gpu.Digest(sum) {
			t.Errorf("%d bytes: %x, want %x", bytes, got, sum)
		}
	}
}

func BenchmarkChunk(b *testing.B) {
	f, chunk := New(NewKey()), make([]byte, gpu.ChunkBytes)
	b.SetBytes(gpu.ChunkBytes)
	for b.Loop() {
		f.Of(chunk)
	}
}
