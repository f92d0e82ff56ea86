package heap

import (
	"iter"
	"slices"

	"github.com/phos-gpu/phos/daemon/gpu"
	"github.com/phos-gpu/phos/hijack/abi"
)

// Spare returns the address of the empty chunk that is still mapped, or 0. Together with the
// allocations it is the whole state of a heap.
func (h *Heap) Spare() uint64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.spare
}

// Mapped yields the ranges of mapped chunks, by address.
func (h *Heap) Mapped() iter.Seq[gpu.Range] {
	h.mu.Lock()
	defer h.mu.Unlock()
	var mapped []gpu.Range
	at := h.window.Address
	for _, free := range slices.Concat(h.chunks.byAddress, h.homes.byAddress) {
		if free.Address > at {
			mapped = append(mapped, gpu.Range{Address: at, Bytes: free.Address - at})
		}
		at = free.End()
	}
	if at < h.window.End() {
		mapped = append(mapped, gpu.Range{Address: at, Bytes: h.window.End() - at})
	}
	return slices.Values(mapped)
}

// Restore returns a heap with exactly these allocations, sorted by address. It places later
// allocations as the original heap would. It fails with abi.InvalidValue if no heap can have this
// state.
func Restore(window gpu.Range, backing Backing, allocated []gpu.Range, spare uint64) (*Heap, error) {
	h := New(window, backing)
	shared := uint64(0) // the last shared chunk that was mapped
	for _, r := range allocated {
		if err := h.restore(r, &shared); err != nil {
			return nil, err
		}
	}
	if spare == 0 {
		return h, nil
	}
	if err := h.share(spare); err != nil {
		return nil, err
	}
	h.spare = spare
	return h, nil
}

// invalidSaved returns an error about an invalid saved allocation.
func invalidSaved(detail string) error {
	return &gpu.Error{Op: "restore allocation", Code: abi.InvalidValue, Detail: detail}
}

// restore allocates one range. shared is the shared chunk that was mapped last.
func (h *Heap) restore(r gpu.Range, shared *uint64) error {
	if r.Bytes == 0 || r.Bytes > 1<<62 || r.Address%Align != 0 {
		return invalidSaved("size or address is invalid")
	}
	if r.Bytes > SmallBytes {
		whole := gpu.Range{Address: r.Address, Bytes: roundUp(r.Bytes, gpu.ChunkBytes)}
		if r.Address%gpu.ChunkBytes != 0 || !h.takeChunks(whole) {
			return invalidSaved("the chunks are in use")
		}
		if err := h.mapChunks(whole, h.backing.Map); err != nil {
			return err
		}
		h.live.add(r)
		return nil
	}
	if chunk := r.Address &^ (gpu.ChunkBytes - 1); chunk != *shared {
		if err := h.share(chunk); err != nil {
			return err
		}
		*shared = chunk
	}
	if !h.small.takeAt(gpu.Range{Address: r.Address, Bytes: roundUp(r.Bytes, Align)}) {
		return invalidSaved("the range is in use")
	}
	h.live.add(r)
	return nil
}

// share maps a chunk for small allocations.
func (h *Heap) share(address uint64) error {
	chunk := gpu.Range{Address: address, Bytes: gpu.ChunkBytes}
	if address%gpu.ChunkBytes != 0 || !h.takeChunks(chunk) {
		return invalidSaved("the chunk is in use")
	}
	if err := h.mapChunks(chunk, h.backing.Map); err != nil {
		return err
	}
	h.small.add(chunk)
	return nil
}
