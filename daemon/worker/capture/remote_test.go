package capture

import (
	"cmp"
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/phos-gpu/phos/ckpt/image"
	"github.com/phos-gpu/phos/daemon/gpu"
	"github.com/phos-gpu/phos/daemon/gpu/digest"
	"github.com/phos-gpu/phos/daemon/gpu/shadow"
	"github.com/phos-gpu/phos/hijack/abi"
)

// remote makes a software GPU's memory behave like a real GPU's: it can be read, digested and
// copied within, but it has no dirty tracking and cannot be viewed.
type remote struct {
	gpu.Memory
	gpu.Digester
	*shadow.Room
	read   atomic.Uint64 // bytes copied out
	pinned atomic.Int64  // buffers
}

func (r *remote) Pin(memory []byte) (func() error, error) {
	if len(memory) != gpu.ChunkBytes {
		return nil, abi.InvalidValue
	}
	if r.pinned.Add(1) > 6 {
		r.pinned.Add(-1)
		return nil, abi.OutOfMemory
	}
	return func() error {
		memory[0]++ // it must still be mapped
		r.pinned.Add(-1)
		return nil
	}, nil
}

// remoteOptions are the variants.
type remoteOptions struct {
	kernel bool // compute digests by a kernel instead of the processor, which is faster on this GPU
	blocks int  // of 64 MiB for shadows; 0 means many, negative means none
}

// Map prefers the program's memory over shadows.
func (r *remote) Map(m gpu.Range) error {
	return r.ReclaimFor(func() error { return r.Memory.Map(m) })
}

// apart is memory for shadows, at addresses that are never reused.
type apart struct {
	gpu.Memory
	limit int // of allocations at a time

	mu        sync.Mutex
	next      uint64
	allocated map[uint64]uint64
}

func (a *apart) Alloc(bytes uint64) (uint64, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	r := gpu.Range{Address: a.next, Bytes: bytes}
	if len(a.allocated) == a.limit {
		return 0, abi.OutOfMemory
	}
	if err := a.Map(r); err != nil {
		return 0, err
	}
	a.next, a.allocated[r.Address] = r.End(), bytes
	return r.Address, nil
}

func (a *apart) Free(address uint64) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	r := gpu.Range{Address: address, Bytes: a.allocated[address]}
	delete(a.allocated, address)
	return a.Unmap(r)
}

func (r *remote) ReadAt(p []byte, address int64) (int, error) {
	r.read.Add(uint64(len(p)))
	return r.Memory.ReadAt(p, address)
}

// unshadowed is a memory without shadows.
type unshadowed struct {
	gpu.Memory
	gpu.Digester
}

func openRemote(t testing.TB, chunks int, options remoteOptions) *machine {
	t.Helper()
	m := openMachine(t, specs["digests"], 0)
	if _, ok := m.memory.(gpu.Tracker); ok {
		t.Fatal("memory is a gpu.Tracker")
	}
	digester := m.memory.(gpu.Digester)
	const far = 1 << 39 // from the program's memory
	base := gpu.DefaultWindow(0, 1).Address
	if options.kernel {
		area := gpu.Range{Address: base + far - gpu.ChunkBytes, Bytes: gpu.ChunkBytes}
		must(t, m.memory.Map(area))
		kernel, err := digest.Load(m.context, area, 0)
		must(t, err)
		digester = byKernel{digester, kernel}
	}
	if options.blocks < 0 {
		m.memory = &unshadowed{m.memory, digester}
	} else {
		stream, err := m.context.NewStream(gpu.StreamOptions{})
		must(t, err)
		place := &apart{
			Memory: m.memory, next: base + far, limit: cmp.Or(options.blocks, 1<<10),
			allocated: map[uint64]uint64{},
		}
		m.memory = &remote{Memory: m.memory, Digester: digester, Room: shadow.NewRoom(place, stream)}
	}
	if chunks > 0 {
		m.grow(chunks)
	}
	return m
}

// byKernel computes digests with the kernel.
type byKernel struct {
	gpu.Digester
	kernel *digest.Kernel
}

func (b byKernel) Digests(key gpu.DigestKey, list []gpu.Range) ([]gpu.Digest, error) {
	var chunks []uint64
	for _, r := range list {
		for at := r.Address; at < r.End(); at += gpu.ChunkBytes {
			chunks = append(chunks, at)
		}
	}
	return b.kernel.Digests(key, chunks)
}

// TestRemoteExact: kernels store at random around checkpoints of a GPU that only digests: by its
// kernel, with enough shadows, with too few, and with none.
func TestRemoteExact(t *testing.T) {
	for name, options := range map[string]remoteOptions{
		"by the kernel": {kernel: true},
		"some shadows":  {blocks: 1},
		"no shadows":    {blocks: -1},
	} {
		t.Run(name, func(t *testing.T) {
			chunks := 48
			if options.kernel {
				chunks = 9
			}
			m := openRemote(t, chunks, options)
			target := newShelf()
			c := New(m.sources)
			for round := range 3 {
				stats := m.exact(c, target, Options{BudgetBytes: 8 << 20, Workers: 2}, m.scribble(2))
				if gotAside := stats.DeviceBytes > 0; gotAside != (options.blocks >= 0) || stats.CutBytes == 0 {
					t.Errorf("round %d: %+v", round, stats)
				}
			}
		})
	}
}

// TestShadowsOnDevice: dirty memory is copied within the device, as far as its memory suffices,
// then to buffers, then to the target; and the result is right.
func TestShadowsOnDevice(t *testing.T) {
	const chunks, block = 100, 64 << 20
	for name, want := range map[string]struct {
		blocks         int
		device, direct uint64
	}{
		"all":  {0, chunks * gpu.ChunkBytes, 0},
		"some": {1, block, chunks*gpu.ChunkBytes - block - 16<<20},
		"none": {-1, 0, chunks*gpu.ChunkBytes - 16<<20},
	} {
		t.Run(name, func(t *testing.T) {
			m := openRemote(t, chunks, remoteOptions{blocks: want.blocks})
			must(t, fillAll(m, 1))
			target := newShelf()
			s, err := New(m.sources).Begin(target, Options{BudgetBytes: 16 << 20})
			must(t, err)
			must(t, s.Precopy(t.Context()))
			must(t, fillAll(m, 2))
			far, ok := m.memory.(*remote)
			if ok {
				far.read.Store(0)
			}
			must(t, s.Cut(t.Context()))
			if ok && want.direct == 0 && far.read.Load() > 0 {
				t.Errorf("%d bytes copied out at the cut", far.read.Load())
			}
			if ok && far.pinned.Load() == 0 {
				t.Error("no buffer is pinned")
			}
			before := m.contents()
			must(t, fillAll(m, 3))
			entries, err := s.Finish(t.Context())
			must(t, err)
			m.same("image", m.saved(target, entries), before)
			if stats := s.Stats(); stats.DeviceBytes != want.device || stats.DirectBytes != want.direct ||
				stats.CutBytes != chunks*gpu.ChunkBytes {
				t.Errorf("%+v", stats)
			}
			m.nothingAside()
		})
	}
}

// nothingAside checks that only the program uses device memory.
func (m *machine) nothingAside() {
	m.t.Helper()
	if free, all := m.memory.Usage(); all-free != total(m.ranges) {
		m.t.Errorf("%d bytes of device memory in use, %d by the program", all-free, total(m.ranges))
	}
	if far, ok := m.memory.(*remote); ok && far.pinned.Load() != 0 {
		m.t.Errorf("%d buffers still pinned", far.pinned.Load())
	}
}

// TestRemoteReads: unchanged memory is digested but not copied out; little dirty memory is only
// read from its shadows.
func TestRemoteReads(t *testing.T) {
	m := openRemote(t, 100, remoteOptions{})
	c, target := New(m.sources), newShelf()
	must(t, fillAll(m, 1))
	for i, want := range []struct{ read, written uint64 }{{100, 100}, {0, 0}, {0, 1}} {
		if i == 2 {
			must(t, write(m, m.ranges[0].Address+77*gpu.ChunkBytes, 9))
		}
		far := m.memory.(*remote)
		far.read.Store(0)
		s, err := c.Begin(target, Options{Workers: 1})
		must(t, err)
		must(t, s.Precopy(t.Context()))
		must(t, s.Cut(t.Context()))
		_, err = s.Finish(t.Context())
		must(t, err)
		if got, stats := far.read.Load(), s.Stats(); got != want.read*gpu.ChunkBytes ||
			stats.WrittenBytes != want.written*gpu.ChunkBytes {
			t.Errorf("checkpoint %d read %d bytes and wrote %d, want %+v chunks", i, got, stats.WrittenBytes, want)
		}
	}
}

// slowShelf is a target whose first Put waits until more than one chunk was copied out.
type slowShelf struct {
	*shelf
	far  *remote
	once sync.Once
	late atomic.Bool
}

func (s *slowShelf) Put(ctx context.Context, content []byte) (image.Hash, bool, error) {
	s.once.Do(func() {
		for limit := time.Now().Add(time.Minute); s.far.read.Load() <= gpu.ChunkBytes; time.Sleep(time.Millisecond) {
			if time.Now().After(limit) {
				s.late.Store(true)
				return
			}
		}
	})
	return s.shelf.Put(ctx, content)
}

// TestReadsOverlapWriting: while a chunk is digested and written the next one is copied out,
// however few processors there are.
func TestReadsOverlapWriting(t *testing.T) {
	m := openRemote(t, 3*batchPieces, remoteOptions{})
	must(t, fillAll(m, 1))
	target := &slowShelf{shelf: newShelf(), far: m.memory.(*remote)}
	s, err := New(m.sources).Begin(target, Options{})
	must(t, err)
	defer s.Abort()
	must(t, s.Precopy(t.Context()))
	if target.late.Load() {
		t.Error("copying out does not overlap writing")
	}
}
