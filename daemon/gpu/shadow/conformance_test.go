package shadow_test

import (
	"log/slog"
	"sync"
	"testing"

	"github.com/phos-gpu/phos/daemon/gpu"
	"github.com/phos-gpu/phos/daemon/gpu/digest"
	"github.com/phos-gpu/phos/daemon/gpu/gputest"
	"github.com/phos-gpu/phos/daemon/gpu/shadow"
	"github.com/phos-gpu/phos/daemon/gpu/soft"
	"github.com/phos-gpu/phos/hijack/abi"
)

// remote is a backend of software GPUs with the memory interfaces of a real GPU: digests computed
// by the kernel, and shadows.
type remote struct{ gpu.Backend }

type remoteContext struct {
	gpu.Context
	memory *remoteMemory
}

type remoteMemory struct {
	gpu.Memory // the program's
	*shadow.Room
	apart   *apart
	context gpu.Context

	mu     sync.Mutex
	kernel *digest.Kernel // nil until first used
	mapped map[uint64]bool
}

func (b remote) NewContext(ordinal int, options gpu.ContextOptions) (gpu.Context, error) {
	c, err := b.Backend.NewContext(ordinal, options)
	if err != nil {
		return nil, err
	}
	stream, err := c.NewStream(gpu.StreamOptions{})
	if err != nil {
		return nil, err
	}
	m := &remoteMemory{Memory: c.Memory(), context: c, mapped: map[uint64]bool{}}
	m.apart = &apart{Memory: m.Memory}
	m.Room = shadow.NewRoom(m.apart, stream)
	return &remoteContext{c, m}, nil
}

func (c *remoteContext) Memory() gpu.Memory { return c.memory }

func (c *remoteContext) Close() error {
	c.memory.apart.end()
	c.memory.forget()
	return c.Context.Close()
}

func (m *remoteMemory) Map(r gpu.Range) error {
	err := m.ReclaimFor(func() error { return m.Memory.Map(r) })
	m.note(r, err == nil)
	return err
}

func (m *remoteMemory) Unmap(r gpu.Range) error {
	err := m.Memory.Unmap(r)
	m.note(r, err != nil)
	return err
}

func (m *remoteMemory) note(r gpu.Range, mapped bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for at := r.Address; at < r.End(); at += gpu.ChunkBytes {
		m.mapped[at] = mapped
	}
}

// forget is called before the context is closed.
func (m *remoteMemory) forget() {
	m.mu.Lock()
	defer m.mu.Unlock()
	clear(m.mapped)
}

func (m *remoteMemory) Digests(key gpu.DigestKey, list []gpu.Range) ([]gpu.Digest, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var chunks []uint64
	var places []int
	n := 0
	for _, r := range list {
		if r.Address%gpu.ChunkBytes != 0 {
			return nil, abi.InvalidValue
		}
		for at := r.Address; at < r.End(); at += gpu.ChunkBytes {
			if m.mapped[at] {
				chunks, places = append(chunks, at), append(places, n)
			}
			n++
		}
	}
	if len(chunks) == 0 {
		return make([]gpu.Digest, n), nil
	}
	if m.kernel == nil {
		area, err := m.apart.Alloc(gpu.ChunkBytes)
		if err != nil {
			return nil, err
		}
		kernel, err := digest.Load(m.context, gpu.Range{Address: area, Bytes: gpu.ChunkBytes}, 2)
		if err != nil {
			return nil, err
		}
		m.kernel = kernel
	}
	some, err := m.kernel.Digests(key, chunks)
	digests := make([]gpu.Digest, n)
	for i, d := range some {
		digests[places[i]] = d
	}
	return digests, err
}

func (m *remoteMemory) DigestCopy(key gpu.DigestKey, chunk []byte) gpu.Digest {
	return digest.New(key).Of(chunk)
}

// TestConformance checks the contract for a backend with digests and shadows, and without dirty
// tracking.
func TestConformance(t *testing.T) {
	gputest.Run(t, func(t testing.TB) gpu.Backend {
		backend, err := soft.Open("soft:1,marks=off", soft.Options{Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		return remote{backend}
	})
}
