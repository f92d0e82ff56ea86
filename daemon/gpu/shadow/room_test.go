package shadow_test

import (
	"bytes"
	"errors"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/phos-gpu/phos/daemon/gpu"
	"github.com/phos-gpu/phos/daemon/gpu/shadow"
	"github.com/phos-gpu/phos/daemon/gpu/soft"
	"github.com/phos-gpu/phos/hijack/abi"
)

// device is a software GPU of 640 MiB with a room for shadows.
type device struct {
	t      *testing.T
	memory gpu.Memory
	room   *shadow.Room
	base   uint64
}

const blockChunks = 32

func openDevice(t *testing.T, chunks int) *device {
	t.Helper()
	backend, err := soft.Open("soft:1,memory=640MiB", soft.Options{Logger: slog.New(slog.DiscardHandler)})
	must(t, err)
	t.Cleanup(func() { must(t, backend.Close()) })
	context, err := backend.NewContext(0, gpu.ContextOptions{})
	must(t, err)
	stream, err := context.NewStream(gpu.StreamOptions{})
	must(t, err)
	d := &device{t: t, memory: context.Memory(), base: gpu.DefaultWindow(0, 1).Address}
	d.room = shadow.NewRoom(&apart{Memory: d.memory}, strict{stream})
	must(t, d.mapped(d.chunks(0, chunks)))
	return d
}

// mapped maps memory for the program.
func (d *device) mapped(r gpu.Range) error {
	return d.room.ReclaimFor(func() error { return d.memory.Map(r) })
}

// strict is a stream that refuses copies across allocations, like a driver.
type strict struct{ gpu.Stream }

func (s strict) Submit(work gpu.Work) error {
	if c, ok := work.(gpu.Copy); ok && (c.Dst.Address-far)>>strideBits != (c.Dst.Address+c.Extent[0]-1-far)>>strideBits {
		return abi.InvalidValue
	}
	return s.Stream.Submit(work)
}

// strideBits makes allocations of a block's size adjacent.
const strideBits = 26

// apart is memory at other addresses than the program's.
type apart struct {
	gpu.Memory
	mu        sync.Mutex
	allocated []gpu.Range // by place; zero if free
	gone      bool        // freed with the context
}

// far is its address.
var far = gpu.DefaultWindow(0, 1).Address + 1<<39

func (a *apart) Alloc(bytes uint64) (uint64, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	at := slices.IndexFunc(a.allocated, func(r gpu.Range) bool { return r.Bytes == 0 })
	if at < 0 {
		at = len(a.allocated)
		a.allocated = append(a.allocated, gpu.Range{})
	}
	r := gpu.Range{Address: far + uint64(at)<<strideBits, Bytes: bytes}
	if err := a.Map(r); err != nil {
		return 0, err
	}
	a.allocated[at] = r
	return r.Address, nil
}

func (a *apart) Free(address uint64) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.gone {
		return nil
	}
	at := (address - far) >> strideBits
	r := a.allocated[at]
	a.allocated[at] = gpu.Range{}
	return a.Unmap(r)
}

func (a *apart) end() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.gone = true
}

func (d *device) chunks(first, count int) gpu.Range {
	return gpu.Range{Address: d.base + uint64(first)*gpu.ChunkBytes, Bytes: uint64(count) * gpu.ChunkBytes}
}

// used returns the number of chunks in use.
func (d *device) used() int {
	free, total := d.memory.Usage()
	return int((total - free) / gpu.ChunkBytes)
}

// fill fills each chunk with different content and returns their first bytes.
func (d *device) fill(chunks int, seed byte) (beginnings [][]byte) {
	d.t.Helper()
	random := rand.NewChaCha8([32]byte{seed})
	for i := range chunks {
		beginning := make([]byte, 64)
		_, _ = random.Read(beginning)
		_, err := d.memory.WriteAt(beginning, int64(d.chunks(i, 1).Address))
		must(d.t, err)
		beginnings = append(beginnings, beginning)
	}
	return beginnings
}

func (d *device) copy(s gpu.Shadows, chunks ...int) []gpu.Shadow {
	d.t.Helper()
	var addresses []uint64
	for _, chunk := range chunks {
		addresses = append(addresses, d.chunks(chunk, 1).Address)
	}
	copies, err := s.Copy(addresses)
	must(d.t, err)
	return copies
}

func (d *device) check(copies []gpu.Shadow, beginnings ...[]byte) {
	d.t.Helper()
	content := make([]byte, gpu.ChunkBytes)
	for i, c := range copies {
		must(d.t, c.Read(content))
		if !bytes.HasPrefix(content, beginnings[i]) {
			d.t.Errorf("copy %d begins with %x, want %x", i, content[:8], beginnings[i][:8])
		}
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestCopies checks that shadows keep the chunks' content, in any order and beyond the prepared
// room, and that all memory is freed in the end.
func TestCopies(t *testing.T) {
	const chunks = 70
	d := openDevice(t, chunks)
	before := d.fill(chunks, 1)
	s, room, err := d.room.NewShadows(3)
	must(t, err)
	if room != blockChunks {
		t.Errorf("prepared: room for %d chunks", room)
	}
	if used := d.used(); used != chunks+blockChunks {
		t.Errorf("prepared: %d chunks in use", used)
	}
	first := d.copy(s, 5, 3, 4)
	order := rand.Perm(chunks)
	second := d.copy(s, order...)
	if len(first) != 3 || len(second) != chunks {
		t.Fatalf("got %d and %d copies", len(first), len(second))
	}
	d.fill(chunks, 2)
	d.check(first, before[5], before[3], before[4])
	for i, chunk := range order {
		d.check(second[i:i+1], before[chunk])
	}
	must(t, s.Close())
	if used := d.used(); used != chunks {
		t.Errorf("closed: %d chunks in use", used)
	}
}

// TestReleasedAgain checks that released slots are reused without more memory.
func TestReleasedAgain(t *testing.T) {
	const chunks = blockChunks
	d := openDevice(t, chunks)
	s, _, err := d.room.NewShadows(chunks)
	must(t, err)
	for round := range byte(3) {
		before, order := d.fill(chunks, round), rand.Perm(chunks)
		copies := d.copy(s, order...)
		for i, chunk := range order {
			d.check(copies[i:i+1], before[chunk])
		}
		if d.used() != chunks+blockChunks {
			t.Errorf("round %d: %d chunks in use", round, d.used())
		}
		for _, c := range copies[1:] {
			must(t, c.Release())
		}
		must(t, copies[0].Release())
	}
	must(t, s.Close())
}

// TestHalf checks that shadows take at most half of the free memory and report how many fit.
func TestHalf(t *testing.T) {
	const chunks = 160 // 160 of 320 chunks are free, 80 of them for shadows, in whole blocks
	d := openDevice(t, chunks)
	before := d.fill(chunks, 1)
	s, room, err := d.room.NewShadows(chunks)
	must(t, err)
	if room != 2*blockChunks {
		t.Errorf("room for %d", room)
	}
	order := rand.Perm(chunks)
	copies := d.copy(s, order...)
	if len(copies) != 2*blockChunks {
		t.Fatalf("%d copies", len(copies))
	}
	for i, chunk := range order[:len(copies)] {
		d.check(copies[i:i+1], before[chunk])
	}
	if more := d.copy(s, 1); len(more) != 0 {
		t.Errorf("got %d additional copies", len(more))
	}
	must(t, s.Close())
}

// TestProgramFirst checks that the program gets memory from shadows: at once from blocks without
// copies, else when their copies are released.
func TestProgramFirst(t *testing.T) {
	const chunks = 160
	d := openDevice(t, chunks)
	d.fill(chunks, 1)
	s, _, err := d.room.NewShadows(2 * blockChunks)
	must(t, err)
	copies := d.copy(s, 1, 2)
	must(t, d.mapped(d.chunks(chunks, 160-blockChunks))) // fits only if the block without copies is freed
	mapped := make(chan error)
	rest := d.chunks(320-blockChunks, blockChunks)
	go func() { mapped <- d.mapped(rest) }()
	must(t, copies[1].Release())
	select {
	case err := <-mapped:
		t.Fatalf("mapped while a copy is held: %v", err)
	default:
	}
	must(t, copies[0].Release())
	must(t, <-mapped)
	if err := d.mapped(d.chunks(320, 1)); !errors.Is(err, abi.OutOfMemory) {
		t.Errorf("map more than the device has: %v", err)
	}
	must(t, d.memory.Unmap(rest))
	must(t, s.Close())
	if d.used() != 320-blockChunks {
		t.Errorf("%d chunks in use", d.used())
	}
}

// TestWaitReleased checks that WaitReleased waits for the last copy.
func TestWaitReleased(t *testing.T) {
	d := openDevice(t, 8)
	d.room.WaitReleased()
	d.fill(8, 1)
	s, _, err := d.room.NewShadows(2)
	must(t, err)
	d.room.WaitReleased() // does not wait for memory without copies
	copies := d.copy(s, 1, 2)
	released := make(chan struct{})
	go func() {
		d.room.WaitReleased()
		close(released)
	}()
	for _, c := range copies {
		select {
		case <-released:
			t.Fatal("WaitReleased returned while a copy is held")
		default:
		}
		must(t, c.Release())
	}
	<-released
	must(t, s.Close())
}

// TestAcrossBlocks checks copies that lie in several blocks.
func TestAcrossBlocks(t *testing.T) {
	const chunks = 3 * blockChunks
	d := openDevice(t, chunks)
	beginnings := d.fill(chunks, 5)
	var all []int
	for i := range chunks {
		all = append(all, i)
	}
	for range 8 {
		s, _, err := d.room.NewShadows(chunks)
		must(t, err)
		d.check(d.copy(s, all...), beginnings...)
		must(t, s.Close())
	}
}

// TestFault checks that a chunk that cannot be copied is an error and leaks no memory.
func TestFault(t *testing.T) {
	d := openDevice(t, 4)
	s, _, err := d.room.NewShadows(1)
	must(t, err)
	if _, err := s.Copy([]uint64{d.chunks(0, 1).Address, d.chunks(9, 1).Address}); !errors.Is(err, abi.IllegalAddress) {
		t.Errorf("copy of an unmapped chunk: %v", err)
	}
	must(t, s.Close())
	if d.used() != 4 {
		t.Errorf("%d chunks in use", d.used())
	}
}
