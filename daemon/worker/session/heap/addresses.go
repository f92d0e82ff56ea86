package heap

import (
	"math/bits"

	"github.com/phos-gpu/phos/daemon/gpu"
	"github.com/phos-gpu/phos/hijack/abi"
)

// Addresses allocates address ranges of whole chunks without memory. It is not safe for concurrent
// use.
type Addresses struct{ free freeList }

// NewAddresses returns an allocator for a range that begins and ends at chunk boundaries.
func NewAddresses(whole gpu.Range) *Addresses {
	a := &Addresses{}
	a.free.add(whole)
	return a
}

// Take returns a free range at a multiple of align, a power of two.
func (a *Addresses) Take(bytes, align uint64) (gpu.Range, error) {
	if bytes == 0 || bits.OnesCount64(align) > 1 {
		return gpu.Range{}, &gpu.Error{Op: "reserve addresses", Code: abi.InvalidValue, Detail: "size or alignment"}
	}
	const limit = 1 << 62 // far beyond all windows, and rounding up does not overflow
	bytes, align = roundUp(min(bytes, limit), gpu.ChunkBytes), min(max(align, gpu.ChunkBytes), limit)
	for _, free := range a.free.bySize {
		if free.Bytes < bytes {
			continue
		}
		at := gpu.Range{Address: roundUp(free.Address, align), Bytes: bytes}
		if free.Contains(at) {
			a.free.takeAt(at)
			return at, nil
		}
	}
	return gpu.Range{}, &gpu.Error{Op: "reserve addresses", Code: abi.OutOfMemory, Detail: "no range is free"}
}

// TakeAt takes exactly this range of whole chunks, and reports whether it was free.
func (a *Addresses) TakeAt(r gpu.Range) bool {
	if r.Bytes == 0 || (r.Address|r.Bytes)%gpu.ChunkBytes != 0 || r.Address+r.Bytes < r.Address {
		return false
	}
	return a.free.takeAt(r)
}

// Give frees a range.
func (a *Addresses) Give(r gpu.Range) { a.free.add(r) }
