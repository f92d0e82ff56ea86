package bench

import (
	"crypto/aes"
	"crypto/cipher"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/phos-gpu/phos/daemon/gpu"
	"github.com/phos-gpu/phos/daemon/gpu/digest"
	"github.com/phos-gpu/phos/daemon/gpu/soft"
)

// measureDigests measures the digest of chunks on one core, alternating with what it is compared
// with, over more memory than caches hold. The digest kernel's speed on the software GPU is
// meaningless; only its result is checked.
func measureDigests(t *testing.T, b *bench) []row {
	const chunks = 64
	content := make([]byte, chunks*gpu.ChunkBytes)
	_, _ = rand.NewChaCha8([32]byte{1}).Read(content)
	key := digest.NewKey()
	f, into := digest.New(key), make([]byte, gpu.ChunkBytes)
	block, err := aes.NewCipher(key[:])
	if err != nil {
		t.Fatal(err)
	}
	gcm, err := cipher.NewGCM(block)
	if err != nil {
		t.Fatal(err)
	}
	each := func(do func(chunk []byte)) (tookSeconds float64) {
		began := time.Now()
		for at := 0; at < len(content); at += gpu.ChunkBytes {
			do(content[at:][:gpu.ChunkBytes])
		}
		return time.Since(began).Seconds()
	}
	var digests, copies, gmacs []float64
	for range 5 * b.rounds {
		digests = append(digests, each(func(chunk []byte) { f.Of(chunk) }))
		copies = append(copies, each(func(chunk []byte) { copy(into, chunk) }))
		gmacs = append(
			gmacs,
			each(func(chunk []byte) { gcm.Seal(into[:0], make([]byte, gcm.NonceSize()), nil, chunk) }),
		)
	}
	took, copied, gmac := median(digests), median(copies), median(gmacs)
	rate := func(tookSeconds float64) float64 { return float64(len(content)) / tookSeconds / 1e9 }
	return []row{
		{
			name: "digest of chunks, one core", value: rate(took), unit: "GB/s", least: 4,
			note: fmt.Sprintf(
				"%.2f of memcpy's %.1f; the kernel agrees in %d chunks",
				copied/took,
				rate(copied),
				kernelAgrees(t, f, key),
			),
		},
		{
			name:  "  in the time of GMAC",
			value: took / gmac,
			most:  1,
			note:  fmt.Sprintf("which does %.1f GB/s", rate(gmac)),
		},
	}
}

// kernelAgrees compares the kernel's digests of some chunks with the processor's.
func kernelAgrees(t *testing.T, f digest.Func, key gpu.DigestKey) (chunks int) {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	backend, err := soft.Open("soft:1,memory=64MiB", soft.Options{Logger: slog.New(slog.DiscardHandler)})
	must(err)
	defer backend.Close()
	device, err := backend.NewContext(0, gpu.ContextOptions{})
	must(err)
	area := gpu.Range{Address: gpu.DefaultWindow(0, 1).Address, Bytes: gpu.ChunkBytes}
	must(device.Memory().Map(area))
	kernel, err := digest.Load(device, area, 0)
	must(err)
	defer kernel.Close()
	var addresses []uint64
	var want []gpu.Digest
	content := make([]byte, gpu.ChunkBytes)
	for address := area.End(); len(addresses) < 4; address += gpu.ChunkBytes {
		must(device.Memory().Map(gpu.Range{Address: address, Bytes: gpu.ChunkBytes}))
		_, _ = rand.NewChaCha8([32]byte{byte(len(addresses))}).Read(content)
		_, err := device.Memory().WriteAt(content, int64(address))
		must(err)
		addresses, want = append(addresses, address), append(want, f.Of(content))
	}
	got, err := kernel.Digests(key, addresses)
	must(err)
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("chunk %d: got %x from the kernel, want %x", i, got[i], want[i])
		}
	}
	return len(got)
}
