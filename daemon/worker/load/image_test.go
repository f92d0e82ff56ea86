package load

import (
	"encoding/binary"
	"log/slog"
	"math/rand/v2"
	"os"
	"sync"
	"testing"

	"github.com/phos-gpu/phos/ckpt/image"
	"github.com/phos-gpu/phos/ckpt/store"
	"github.com/phos-gpu/phos/ckpt/store/contents"
	"github.com/phos-gpu/phos/daemon/gpu"
	"github.com/phos-gpu/phos/daemon/gpu/soft"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// base is the address of the tests' memory.
var base = gpu.DefaultWindow(0, 1).Address

func at(chunk int) uint64 { return base + uint64(chunk)*gpu.ChunkBytes }

func span(first, chunks int) gpu.Range {
	return gpu.Range{Address: at(first), Bytes: uint64(chunks) * gpu.ChunkBytes}
}

// saved is an image of one GPU's memory in a pack of a real directory.
type saved struct {
	reader *contents.Reader
	tree   *image.Tree
	pack   *os.File
	// contents are by chunk.
	contents map[int][]byte
}

// save puts chunks of noise into a pack, in this order; those in zero are zeros.
func save(t testing.TB, order []int, zero map[int]bool) *saved {
	t.Helper()
	folder, err := os.Open(t.TempDir())
	must(t, err)
	defer folder.Close()
	dir, err := store.Init(folder)
	must(t, err)
	t.Cleanup(dir.Close)
	transaction, err := dir.Begin(t.Context())
	must(t, err)
	t.Cleanup(func() { _ = transaction.Abort() })
	s := &saved{contents: map[int][]byte{}}
	s.pack, err = transaction.NewPack()
	must(t, err)
	t.Cleanup(func() { _ = s.pack.Close() })
	writer := contents.NewWriter(s.pack, nil, contents.WriterOptions{})
	entry := image.Entry{Kind: image.Memory, Name: "gpu0"}
	for _, chunk := range order {
		content := make([]byte, gpu.ChunkBytes)
		if !zero[chunk] {
			_, _ = rand.NewChaCha8([32]byte{byte(chunk), byte(chunk >> 8), 1}).Read(content)
		}
		s.contents[chunk] = content
		hash, _, err := writer.Put(t.Context(), content)
		must(t, err)
		entry.Chunks = append(entry.Chunks, image.Chunk{Address: at(chunk), Bytes: gpu.ChunkBytes, Hash: hash})
		entry.Bytes += gpu.ChunkBytes
	}
	name, err := writer.PutTree(t.Context(), &image.Tree{Entries: []image.Entry{entry}})
	must(t, err)
	must(t, writer.Close())
	s.reader, err = contents.NewReader([]*os.File{s.pack})
	must(t, err)
	s.tree, err = s.reader.Tree(name)
	must(t, err)
	return s
}

// damage flips a bit of a chunk's content in the pack.
func (s *saved) damage(t testing.TB, chunk int) {
	t.Helper()
	raw, err := os.ReadFile(s.pack.Name())
	if err != nil {
		raw = make([]byte, 64<<20)
		n, _ := s.pack.ReadAt(raw, 0)
		raw = raw[:n]
	}
	needle := binary.LittleEndian.Uint64(s.contents[chunk])
	for offset := 0; offset+8 <= len(raw); offset++ {
		if binary.LittleEndian.Uint64(raw[offset:]) == needle {
			_, err := s.pack.WriteAt([]byte{raw[offset+77777] ^ 4}, int64(offset+77777))
			must(t, err)
			return
		}
	}
	t.Fatalf("chunk %d is not in the pack", chunk)
}

// watched records which contents are read, and can block one of them.
type watched struct {
	Contents
	mu    sync.Mutex
	order []image.Hash
	hold  map[image.Hash]chan struct{}
}

func (w *watched) Read(name image.Hash, into []byte) (int, error) {
	w.mu.Lock()
	w.order = append(w.order, name)
	wait := w.hold[name]
	w.mu.Unlock()
	if wait != nil {
		<-wait
	}
	return w.Contents.Read(name, into)
}

func (w *watched) reads() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.order)
}

// openGPU opens a software GPU.
func openGPU(t testing.TB, spec string) gpu.Context {
	t.Helper()
	backend, err := soft.Open(spec, soft.Options{Logger: slog.New(slog.DiscardHandler)})
	must(t, err)
	t.Cleanup(func() { _ = backend.Close() })
	c, err := backend.NewContext(0, gpu.ContextOptions{})
	must(t, err)
	return c
}

// read copies a chunk out.
func read(t testing.TB, m gpu.Memory, chunk int) []byte {
	t.Helper()
	content := make([]byte, gpu.ChunkBytes)
	_, err := m.ReadAt(content, int64(at(chunk)))
	must(t, err)
	return content
}

// plain hides all optional interfaces of a memory.
type plain struct{ gpu.Memory }
