package heap

import (
	"iter"
	"sync"

	"github.com/phos-gpu/phos/daemon/gpu"
	"github.com/phos-gpu/phos/hijack/abi"
)

// PageBytes is the granularity of the arena.
const PageBytes = 4096

// Store allocates and frees the memory of the arena's file. Offsets are from the start of the
// arena.
type Store interface {
	// Reserve allocates the pages, so that later accesses cannot fail. It returns abi.OutOfMemory if
	// the file system is full.
	Reserve(offset, bytes uint64) error
	// Punch frees the pages; afterwards they read as zeros.
	Punch(offset, bytes uint64) error
}

// Arena allocates pinned memory in whole pages. It is safe for concurrent use.
type Arena struct {
	base  uint64
	store Store

	mu   sync.Mutex
	free freeList
	live live
}

// NewArena returns an allocator for an arena.
func NewArena(arena gpu.Range, store Store) *Arena {
	a := &Arena{base: arena.Address, store: store}
	a.free.add(arena)
	return a
}

// Allocate returns zeroed pages of at least the given size.
func (a *Arena) Allocate(bytes uint64) (gpu.Range, error) {
	if bytes == 0 {
		return gpu.Range{}, &gpu.Error{Op: "allocate 0 bytes of pinned memory", Code: abi.InvalidValue}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if bytes > 1<<62 {
		return gpu.Range{}, abi.OutOfMemory
	}
	pages, found := a.free.take(roundUp(bytes, PageBytes))
	if !found {
		return gpu.Range{}, &gpu.Error{Op: "allocate pinned memory", Code: abi.OutOfMemory, Detail: "the arena is full"}
	}
	return a.reserve(pages, bytes)
}

// AllocateAt allocates exactly this range, for a restore.
func (a *Arena) AllocateAt(r gpu.Range) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	pages := gpu.Range{Address: r.Address, Bytes: roundUp(r.Bytes, PageBytes)}
	if r.Bytes == 0 || r.Bytes > 1<<62 || r.Address%PageBytes != 0 || !a.free.takeAt(pages) {
		return &gpu.Error{
			Op:     "allocate pinned memory at a fixed address",
			Code:   abi.InvalidValue,
			Detail: "the range is in use or misaligned",
		}
	}
	_, err := a.reserve(pages, r.Bytes)
	return err
}

// reserve allocates the memory of pages that were taken from the free list.
func (a *Arena) reserve(pages gpu.Range, bytes uint64) (gpu.Range, error) {
	if err := a.store.Reserve(pages.Address-a.base, pages.Bytes); err != nil {
		a.free.add(pages)
		return gpu.Range{}, err
	}
	r := gpu.Range{Address: pages.Address, Bytes: bytes}
	a.live.add(r)
	return r, nil
}

// Free frees an allocation by its first address.
func (a *Arena) Free(address uint64) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	r, found := a.live.remove(address)
	if !found {
		return &gpu.Error{
			Op:     "free pinned memory",
			Code:   abi.InvalidValue,
			Detail: "the address is not that of an allocation",
		}
	}
	pages := gpu.Range{Address: r.Address, Bytes: roundUp(r.Bytes, PageBytes)}
	a.free.add(pages)
	return a.store.Punch(pages.Address-a.base, pages.Bytes)
}

// Find returns the allocation that contains an address.
func (a *Arena) Find(address uint64) (gpu.Range, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.live.find(address)
}

// Allocations yields the current allocations, by address.
func (a *Arena) Allocations() iter.Seq[gpu.Range] {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.live.all()
}

// Usage returns the number of allocated bytes.
func (a *Arena) Usage() (allocated uint64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.live.bytes
}
