package space

import (
	"fmt"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/phos-gpu/phos/daemon/gpu"
	"github.com/phos-gpu/phos/hijack/abi"
)

// States of a chunk. Their order makes "may be read" one comparison.
const (
	unmapped uint32 = iota
	absent          // mapped, not filled yet
	fresh           // present, all zeros, not written since it was mapped
	guarded         // as clean, and must be saved before it is written
	clean           // present, not written since the dirty bit was cleared
	dirty           // present and written
	shared          // present; other processes may write it unobserved, so it always counts as dirty
	imported        // the same, for memory that another Memory shared
)

// Memory is one address space. All methods are safe for concurrent use. Accesses of different
// goroutines to the same bytes are unordered, as on hardware.
type Memory struct {
	window gpu.Range
	// reserved is the whole reservation. data is its part that is aligned to chunks and as long as the
	// window.
	reserved, data []byte
	states         table

	hosts   atomic.Pointer[[]hostRegion]
	peers   atomic.Pointer[[]*Memory]
	aliases atomic.Pointer[[]alias]

	// touches is the log of touches, nil unless they are recorded.
	touches atomic.Pointer[touchLog]
	// mapped is the state of newly mapped memory.
	mapped uint32

	sharing sharing

	mu          sync.Mutex
	lastTouches *touchLog                // the latest log
	pending     map[uint64]*pendingChunk // absent chunks, by index
	saves       map[uint64]*pendingSave  // guarded chunks, by index
}

// New reserves a window of device memory. Map backs it.
func New(window gpu.Range) (*Memory, error) {
	if window.Bytes == 0 || window.Address%gpu.ChunkBytes != 0 || window.Bytes%gpu.ChunkBytes != 0 {
		return nil, fmt.Errorf(
			"device window %#x+%#x is not whole chunks: %w",
			window.Address,
			window.Bytes,
			abi.InvalidValue,
		)
	}
	if overlapsReserved(window) {
		return nil, fmt.Errorf(
			"device window %#x+%#x overlaps reserved addresses: %w",
			window.Address,
			window.Bytes,
			abi.InvalidValue,
		)
	}
	reserved, err := unix.Mmap(-1, 0, int(window.Bytes+gpu.ChunkBytes), unix.PROT_READ|unix.PROT_WRITE,
		unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_NORESERVE)
	if err != nil {
		return nil, fmt.Errorf("reserve device window of %d bytes: %w: %w", window.Bytes, err, abi.OutOfMemory)
	}
	skip := -addressOf(reserved) & (gpu.ChunkBytes - 1)
	m := &Memory{
		window:   window,
		reserved: reserved,
		data:     reserved[skip : skip+window.Bytes],
		states:   newTable(window.Bytes / gpu.ChunkBytes),
		mapped:   fresh,
		pending:  map[uint64]*pendingChunk{},
		saves:    map[uint64]*pendingSave{},
	}
	m.hosts.Store(&[]hostRegion{})
	m.peers.Store(&[]*Memory{})
	m.aliases.Store(&[]alias{})
	return m, nil
}

// Window returns the range of device addresses that Map can back.
func (m *Memory) Window() gpu.Range { return m.window }

// Close unmaps the window. No access may be in flight, and peers must have removed the memory.
func (m *Memory) Close() error {
	invalidateSpans()
	for _, f := range m.sharing.files {
		_ = f.file.Close() // importers keep their own mappings; Close may repeat for a file of several chunks
	}
	return unix.Munmap(m.reserved)
}

// chunks converts a range of whole chunks inside the window into chunk indices.
func (m *Memory) chunks(r gpu.Range) (first, end uint64, err error) {
	if r.Bytes == 0 || r.Address%gpu.ChunkBytes != 0 || r.Bytes%gpu.ChunkBytes != 0 || !m.window.Contains(r) {
		return 0, 0, fmt.Errorf(
			"range %#x+%#x is not whole chunks of the device window: %w",
			r.Address,
			r.Bytes,
			abi.InvalidValue,
		)
	}
	first = (r.Address - m.window.Address) / gpu.ChunkBytes
	return first, first + r.Bytes/gpu.ChunkBytes, nil
}

// Map backs a range of whole chunks with zeroed memory.
func (m *Memory) Map(r gpu.Range) error { return m.mapAs(r, m.mapped, nil) }

// mapAs maps a range of chunks in a state, with a filler for absent ones.
func (m *Memory) mapAs(r gpu.Range, state uint32, fill Filler) error {
	first, end, err := m.chunks(r)
	if err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.overlapsAlias(r) {
		return fmt.Errorf("map %#x+%#x: range overlaps an alias: %w", r.Address, r.Bytes, abi.AlreadyMapped)
	}
	for i := first; i < end; i++ {
		if m.states.load(i) != unmapped {
			return fmt.Errorf("map %#x+%#x: chunk %d is mapped: %w", r.Address, r.Bytes, i, abi.AlreadyMapped)
		}
	}
	// Huge pages are only an optimization, so an error does not matter.
	_ = unix.Madvise(m.data[first*gpu.ChunkBytes:end*gpu.ChunkBytes], unix.MADV_HUGEPAGE)
	for i := first; i < end; i++ {
		if fill != nil {
			m.pending[i] = &pendingChunk{fill: fill, done: make(chan struct{})}
		}
		m.states.at(i).Store(state)
	}
	return nil
}

// Unmap unmaps memory. It returns when no access to the old content is in flight.
func (m *Memory) Unmap(r gpu.Range) error {
	first, end, err := m.chunks(r)
	if err != nil {
		return err
	}
	m.awaitFills(first, end)
	m.saveGuarded(first, end)
	m.mu.Lock()
	defer m.mu.Unlock()
	for i := first; i < end; i++ {
		if m.states.load(i) == unmapped {
			return fmt.Errorf("unmap %#x+%#x: chunk %d: %w", r.Address, r.Bytes, i, abi.NotMapped)
		}
	}
	others := map[uint64]uint32{} // states of chunks that are backed by a file
	for i := first; i < end; i++ {
		if state := m.states.at(i).Swap(unmapped); state >= shared {
			others[i] = state
		}
		delete(m.pending, i)
	}
	invalidateSpans()
	for i, state := range others {
		if err := m.releaseChunk(i, state); err != nil {
			return fmt.Errorf("release %#x+%#x: %w: %w", r.Address, r.Bytes, err, abi.OperatingSystem)
		}
	}
	if err := unix.Madvise(m.data[first*gpu.ChunkBytes:end*gpu.ChunkBytes], unix.MADV_DONTNEED); err != nil {
		return fmt.Errorf("release %#x+%#x: %w: %w", r.Address, r.Bytes, err, abi.OperatingSystem)
	}
	return nil
}
