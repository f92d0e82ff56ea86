package heap

import (
	"errors"
	"fmt"
	"iter"
	"sync"

	"github.com/phos-gpu/phos/daemon/gpu"
	"github.com/phos-gpu/phos/hijack/abi"
)

const (
	// Align is the alignment of every allocation in bytes; the real driver has the same.
	Align = 512
	// SmallBytes is the largest allocation that shares a chunk with others.
	SmallBytes = gpu.ChunkBytes / 2
)

// Backing maps memory at addresses; gpu.Memory is one. Ranges are whole chunks. If Map fails
// because memory at the range is not yet reclaimed, another range may work.
type Backing interface {
	Map(r gpu.Range) error
	Unmap(r gpu.Range) error
}

// Wholer is a Backing that must know in advance if memory will be mapped at a second address.
type Wholer interface{ MapWhole(r gpu.Range) error }

// Heap allocates device memory in one window of addresses. Small allocations share chunks. Larger
// ones have their own chunks, which are unmapped as soon as they are freed. It is safe for
// concurrent use.
type Heap struct {
	window  gpu.Range
	backing Backing

	mu     sync.Mutex
	chunks freeList // free addresses without memory, in whole chunks
	homes  freeList // the same, in the part of the window for homes
	small  freeList // free spans with memory inside shared chunks
	live   live
	backed uint64 // bytes of chunks that are mapped
	spare  uint64 // an empty shared chunk that stays mapped, to avoid thrashing; 0 for none
}

// New returns a heap for a window, which must begin and end at chunk boundaries.
func New(window gpu.Range, backing Backing) *Heap {
	h := &Heap{window: window, backing: backing, small: freeList{barrier: gpu.ChunkBytes}}
	border := h.border()
	h.chunks.add(gpu.Range{Address: window.Address, Bytes: border - window.Address})
	h.homes.add(gpu.Range{Address: border, Bytes: window.End() - border})
	return h
}

// border returns where the part for homes begins: the last 3/8 of the window.
func (h *Heap) border() uint64 {
	return h.window.End() - h.window.Bytes/8*3&^(gpu.ChunkBytes-1)
}

// part returns the free list for chunks at an address.
func (h *Heap) part(address uint64) *freeList {
	if address >= h.border() {
		return &h.homes
	}
	return &h.chunks
}

// takeChunks takes exactly r from the free addresses, and reports whether all of it was free.
func (h *Heap) takeChunks(r gpu.Range) bool {
	border := h.border()
	if r.Address >= border || r.End() <= border {
		return h.part(r.Address).takeAt(r)
	}
	low := gpu.Range{Address: r.Address, Bytes: border - r.Address}
	if !h.chunks.takeAt(low) {
		return false
	}
	if h.homes.takeAt(gpu.Range{Address: border, Bytes: r.End() - border}) {
		return true
	}
	h.chunks.add(low)
	return false
}

// giveChunks undoes takeChunks.
func (h *Heap) giveChunks(r gpu.Range) {
	if border := h.border(); r.Address < border && r.End() > border {
		h.homes.add(gpu.Range{Address: border, Bytes: r.End() - border})
		r.Bytes = border - r.Address
	}
	h.part(r.Address).add(r)
}

// Allocate returns memory of at least the given size. It returns errors of the backing unchanged,
// for example abi.OutOfMemory.
func (h *Heap) Allocate(bytes uint64) (gpu.Range, error) {
	if bytes == 0 {
		return gpu.Range{}, &gpu.Error{Op: "allocate 0 bytes", Code: abi.InvalidValue}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	place := h.allocateLarge
	if bytes <= SmallBytes {
		place = h.allocateSmall
	}
	address, err := place(bytes)
	if err != nil {
		return gpu.Range{}, err
	}
	r := gpu.Range{Address: address, Bytes: bytes}
	h.live.add(r)
	return r, nil
}

// AllocateHome is Allocate for whole chunks whose address no program is told. They come from a part
// of the window of their own, so that where other memory lies does not depend on them; only when a
// part is full, the other one helps.
func (h *Heap) AllocateHome(bytes uint64) (gpu.Range, error) {
	if bytes == 0 || bytes%gpu.ChunkBytes != 0 {
		return gpu.Range{}, &gpu.Error{
			Op:   fmt.Sprintf("allocate %d bytes in whole chunks", bytes),
			Code: abi.InvalidValue,
		}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	back := h.backing.Map
	if w, ok := h.backing.(Wholer); ok {
		back = w.MapWhole
	}
	address, err := h.allocateChunks(bytes, back, &h.homes, &h.chunks)
	if err != nil {
		return gpu.Range{}, err
	}
	r := gpu.Range{Address: address, Bytes: bytes}
	h.live.add(r)
	return r, nil
}

// allocateSmall takes a part of a shared chunk, and adds a chunk if none has room.
func (h *Heap) allocateSmall(bytes uint64) (uint64, error) {
	need := roundUp(bytes, Align)
	r, found := h.small.take(need)
	if !found {
		address, err := h.allocateLarge(gpu.ChunkBytes)
		if err != nil {
			return 0, err
		}
		h.small.add(gpu.Range{Address: address, Bytes: gpu.ChunkBytes})
		r, _ = h.small.take(need)
	}
	h.useChunk(r.Address)
	return r.Address, nil
}

// useChunk notes that the shared chunk of an address is no longer empty.
func (h *Heap) useChunk(address uint64) {
	if h.spare == address&^(gpu.ChunkBytes-1) {
		h.spare = 0
	}
}

func (h *Heap) allocateLarge(bytes uint64) (uint64, error) {
	return h.allocateChunks(bytes, h.backing.Map, &h.chunks, &h.homes)
}

// allocateChunks takes and maps free chunks from the first part that has some. It skips ranges
// whose memory is not yet reclaimed.
func (h *Heap) allocateChunks(bytes uint64, back func(gpu.Range) error, parts ...*freeList) (uint64, error) {
	if bytes > 1<<62 { // rounding up must not overflow
		return 0, abi.OutOfMemory
	}
	bytes = roundUp(bytes, gpu.ChunkBytes)
	var passed []gpu.Range
	defer func() {
		for _, r := range passed {
			h.giveChunks(r)
		}
	}()
	for _, part := range parts {
		for r, found := part.take(bytes); found; r, found = part.take(bytes) {
			err := h.mapChunks(r, back)
			if err == nil {
				return r.Address, nil
			}
			passed = append(passed, r)
			if !errors.Is(err, gpu.ErrNotReclaimed) {
				return 0, err
			}
		}
	}
	return 0, &gpu.Error{Op: "allocate device memory", Code: abi.OutOfMemory, Detail: "no address range is free"}
}

// mapChunks maps chunks that were taken. If that fails it frees the spare chunk and retries.
func (h *Heap) mapChunks(r gpu.Range, back func(gpu.Range) error) error {
	err := back(r)
	if err != nil && !errors.Is(err, gpu.ErrNotReclaimed) && h.releaseSpare() {
		err = back(r)
	}
	if err == nil {
		h.backed += r.Bytes
	}
	return err
}

// Free frees an allocation by its first address. It fails with abi.InvalidValue if there is none.
func (h *Heap) Free(address uint64) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	r, found := h.live.remove(address)
	if !found {
		return &gpu.Error{
			Op:     "free device memory",
			Code:   abi.InvalidValue,
			Detail: "the address is not that of an allocation",
		}
	}
	if r.Bytes > SmallBytes {
		return h.unmap(gpu.Range{Address: r.Address, Bytes: roundUp(r.Bytes, gpu.ChunkBytes)})
	}
	joined := h.small.add(gpu.Range{Address: r.Address, Bytes: roundUp(r.Bytes, Align)})
	if joined.Bytes < gpu.ChunkBytes {
		return nil
	}
	if h.spare == 0 {
		h.spare = joined.Address
		return nil
	}
	h.small.remove(joined)
	return h.unmap(joined)
}

// unmap frees chunks and unmaps their memory.
func (h *Heap) unmap(r gpu.Range) error {
	h.giveChunks(r)
	h.backed -= r.Bytes
	return h.backing.Unmap(r)
}

// Trim frees the empty chunk that is otherwise kept for the next small allocation.
func (h *Heap) Trim() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.releaseSpare()
}

// releaseSpare frees the spare chunk, and reports whether there was one.
func (h *Heap) releaseSpare() bool {
	if h.spare == 0 {
		return false
	}
	r := gpu.Range{Address: h.spare, Bytes: gpu.ChunkBytes}
	h.spare = 0
	h.small.remove(r)
	return h.unmap(r) == nil
}

// Find returns the allocation that contains an address.
func (h *Heap) Find(address uint64) (gpu.Range, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.live.find(address)
}

// Allocations yields the current allocations, by address.
func (h *Heap) Allocations() iter.Seq[gpu.Range] {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.live.all()
}

// Usage returns the number of allocated bytes and of mapped bytes.
func (h *Heap) Usage() (allocated, backed uint64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.live.bytes, h.backed
}
