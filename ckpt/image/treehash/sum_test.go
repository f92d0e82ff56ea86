package treehash

import (
	"math/rand/v2"
	"testing"

	"github.com/zeebo/blake3"
)

func noise(seed byte, bytes int) []byte {
	out := make([]byte, bytes)
	_, _ = rand.NewChaCha8([32]byte{seed}).Read(out)
	return out
}

// TestSum compares with the other implementation at every length with its own code path, and at
// neighbouring lengths.
func TestSum(t *testing.T) {
	content := noise(1, maxBytes*2)
	for bytes := 1; bytes <= len(content); bytes *= 2 {
		for _, n := range []int{bytes - 1, bytes, min(bytes+1, len(content))} {
			if got, want := Sum(content[:n]), blake3.Sum256(content[:n]); got != want {
				t.Errorf("%d bytes: %x, want %x", n, got, want)
			}
		}
	}
	for seed := range byte(20) {
		content := noise(seed, maxBytes+64)[seed:]
		if got, want := Sum(content[:maxBytes]), blake3.Sum256(content[:maxBytes]); got != want {
			t.Errorf("seed %d: %x, want %x", seed, got, want)
		}
	}
}

func TestTree(t *testing.T) {
	if !fast {
		t.Skip("this processor has no AVX-512")
	}
	r := rand.New(rand.NewPCG(1, 1))
	for range 50 {
		content := noise(byte(r.Uint32()), groupBytes<<r.IntN(8))
		tree := NewTree()
		for rest := content; len(rest) > 0; {
			n := min(groupBytes*(1+r.IntN(20)), len(rest))
			tree.Add(rest[:n])
			rest = rest[n:]
		}
		if got, want := tree.Sum(), blake3.Sum256(content); got != want {
			t.Errorf("%d bytes: %x, want %x", len(content), got, want)
		}
		tree.Release()
	}
}

func FuzzSum(f *testing.F) {
	f.Add([]byte("phos"), uint8(3))
	f.Add([]byte{}, uint8(0))
	f.Fuzz(func(t *testing.T, seed []byte, power uint8) {
		content := make([]byte, groupBytes<<(power%4))
		for n := copy(content, seed); n > 0 && n < len(content); {
			n += copy(content[n:], content[:n])
		}
		copy(content[len(content)/2:], seed)
		if got, want := Sum(content), blake3.Sum256(content); got != want {
			t.Errorf("%x, want %x", got, want)
		}
	})
}

func BenchmarkChunk(b *testing.B) {
	content := noise(1, maxBytes)
	b.Run("this", func(b *testing.B) {
		b.SetBytes(maxBytes)
		for b.Loop() {
			Sum(content)
		}
	})
	b.Run("zeebo", func(b *testing.B) {
		b.SetBytes(maxBytes)
		for b.Loop() {
			blake3.Sum256(content)
		}
	})
}
