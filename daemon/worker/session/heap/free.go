package heap

import (
	"cmp"
	"slices"

	"github.com/phos-gpu/phos/daemon/gpu"
)

// freeList is a set of disjoint spans in two orders: by address to join neighbours, by size to find
// the best fit. Sorted slices are faster than trees here: a program has thousands of spans, and one
// memmove of them costs less than a few cache misses.
type freeList struct {
	byAddress []gpu.Range
	bySize    []gpu.Range
	// barrier, if not 0, keeps spans from joining across its multiples, so that a whole chunk can be
	// freed.
	barrier uint64
}

func compareAddress(a, b gpu.Range) int { return cmp.Compare(a.Address, b.Address) }

func compareSize(a, b gpu.Range) int {
	return cmp.Or(cmp.Compare(a.Bytes, b.Bytes), cmp.Compare(a.Address, b.Address))
}

// add adds a span, joins it with its neighbours, and returns the joined span.
func (f *freeList) add(r gpu.Range) gpu.Range {
	at, _ := slices.BinarySearchFunc(f.byAddress, r, compareAddress)
	if at < len(f.byAddress) && f.joins(r.End()) && f.byAddress[at].Address == r.End() {
		r.Bytes += f.byAddress[at].Bytes
		f.remove(f.byAddress[at])
	}
	if at > 0 && f.joins(r.Address) && f.byAddress[at-1].End() == r.Address {
		before := f.byAddress[at-1]
		f.remove(before)
		r = gpu.Range{Address: before.Address, Bytes: before.Bytes + r.Bytes}
	}
	f.insert(r)
	return r
}

// joins reports whether two spans that meet at address may become one.
func (f *freeList) joins(address uint64) bool { return f.barrier == 0 || address%f.barrier != 0 }

// take takes a span of the given size from the smallest span that fits, the lowest among equals.
func (f *freeList) take(bytes uint64) (gpu.Range, bool) {
	at, _ := slices.BinarySearchFunc(f.bySize, gpu.Range{Bytes: bytes}, compareSize)
	if at == len(f.bySize) {
		return gpu.Range{}, false
	}
	r := gpu.Range{Address: f.bySize[at].Address, Bytes: bytes}
	f.takeAt(r)
	return r, true
}

// takeAt takes exactly r. It reports whether all of r was free.
func (f *freeList) takeAt(r gpu.Range) bool {
	at, exact := slices.BinarySearchFunc(f.byAddress, r, compareAddress)
	if !exact {
		at--
	}
	if at < 0 || !f.byAddress[at].Contains(r) {
		return false
	}
	whole := f.byAddress[at]
	f.remove(whole)
	if r.Address > whole.Address {
		f.insert(gpu.Range{Address: whole.Address, Bytes: r.Address - whole.Address})
	}
	if r.End() < whole.End() {
		f.insert(gpu.Range{Address: r.End(), Bytes: whole.End() - r.End()})
	}
	return true
}

// insert adds a range to both orders. It does not merge it with its neighbours.
func (f *freeList) insert(r gpu.Range) {
	at, _ := slices.BinarySearchFunc(f.byAddress, r, compareAddress)
	f.byAddress = slices.Insert(f.byAddress, at, r)
	at, _ = slices.BinarySearchFunc(f.bySize, r, compareSize)
	f.bySize = slices.Insert(f.bySize, at, r)
}

func (f *freeList) remove(r gpu.Range) {
	at, _ := slices.BinarySearchFunc(f.byAddress, r, compareAddress)
	f.byAddress = slices.Delete(f.byAddress, at, at+1)
	at, _ = slices.BinarySearchFunc(f.bySize, r, compareSize)
	f.bySize = slices.Delete(f.bySize, at, at+1)
}
