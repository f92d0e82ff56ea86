package nested

import (
	"bytes"
	"context"
	"log/slog"
	"sync"
	"testing"

	"github.com/phos-gpu/phos/ckpt/image"
	"github.com/phos-gpu/phos/daemon/gpu"
	"github.com/phos-gpu/phos/daemon/gpu/cuda"
	"github.com/phos-gpu/phos/daemon/worker/capture"
)

// contents stores contents by their digests.
type contents struct{ byName sync.Map }

func (c *contents) Put(_ context.Context, content []byte) (image.Hash, bool, error) {
	name := image.Sum(content)
	_, found := c.byName.LoadOrStore(name, bytes.Clone(content))
	return name, !found && !name.IsZero(), nil
}

func (c *contents) Has(name image.Hash) bool {
	_, found := c.byName.Load(name)
	return found || name.IsZero()
}

// openFirstGPU returns the backend, with libphos.so as its driver, and a context of its first GPU.
func openFirstGPU(t *testing.T) (*cuda.Backend, gpu.Context) {
	t.Helper()
	backend, err := cuda.Open(cuda.Options{Library: library(), Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	device, err := backend.NewContext(0, gpu.ContextOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return backend, device
}

// TestCapture copies GPU memory while it changes, without a dirty map. Our kernel's digests find
// the changes, and changed chunks are set aside on the device. The second time, only changed chunks
// are written.
func TestCapture(t *testing.T) {
	if !ownProcess(t, innerPhosd) {
		return
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	backend, device := openFirstGPU(t)
	defer func() { must(backend.Close()) }()
	const chunks = 20
	memory := device.Memory()
	r := gpu.Range{Address: backend.Devices()[0].Window.Address, Bytes: chunks * gpu.ChunkBytes}
	must(memory.Map(r))
	content := make([]byte, r.Bytes)
	write := func(chunk int, seed byte) {
		t.Helper()
		part := content[chunk*gpu.ChunkBytes:][:gpu.ChunkBytes]
		for i := range part {
			part[i] = byte(i>>8)*seed + byte(i) + byte(chunk)
		}
		_, err := memory.WriteAt(part, int64(r.Address)+int64(chunk*gpu.ChunkBytes))
		must(err)
	}
	for chunk := range chunks {
		write(chunk, 1)
	}
	target := &contents{}
	c := capture.New(func() []capture.Source {
		return []capture.Source{{Name: "gpu0", Memory: memory, Ranges: []gpu.Range{r}}}
	})
	for round, changed := range [][]int{{3, 4, 17}, {0, 19}} {
		s, err := c.Begin(target, capture.Options{})
		must(err)
		must(s.Precopy(t.Context()))
		for _, chunk := range changed {
			write(chunk, byte(round+2))
		}
		must(s.Cut(t.Context()))
		want := bytes.Clone(content)
		for chunk := range 10 {
			write(chunk, 9)
		}
		entries, err := s.Finish(t.Context())
		must(err)
		for _, chunk := range entries[0].Chunks {
			got, _ := target.byName.Load(chunk.Hash)
			if at := chunk.Address - r.Address; !bytes.Equal(got.([]byte), want[at:at+gpu.ChunkBytes]) {
				t.Errorf("round %d: the saved chunk at +%#x differs", round, at)
			}
		}
		if stats := s.Stats(); stats.DeviceBytes != stats.CutBytes || stats.CutBytes != uint64(len(changed))*gpu.ChunkBytes {
			t.Errorf("round %d: %+v", round, stats)
		}
	}
}
