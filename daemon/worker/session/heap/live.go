package heap

import (
	"iter"
	"slices"

	"github.com/phos-gpu/phos/daemon/gpu"
)

// live is the set of allocations, sorted by address. Each range has the requested size.
type live struct {
	ranges []gpu.Range
	bytes  uint64
}

func (l *live) add(r gpu.Range) {
	at, _ := slices.BinarySearchFunc(l.ranges, r, compareAddress)
	l.ranges = slices.Insert(l.ranges, at, r)
	l.bytes += r.Bytes
}

// remove removes the range that begins exactly at address.
func (l *live) remove(address uint64) (gpu.Range, bool) {
	at, exact := slices.BinarySearchFunc(l.ranges, gpu.Range{Address: address}, compareAddress)
	if !exact {
		return gpu.Range{}, false
	}
	r := l.ranges[at]
	l.ranges = slices.Delete(l.ranges, at, at+1)
	l.bytes -= r.Bytes
	return r, true
}

// find returns the range that contains an address.
func (l *live) find(address uint64) (gpu.Range, bool) {
	at, exact := slices.BinarySearchFunc(l.ranges, gpu.Range{Address: address}, compareAddress)
	if !exact {
		at--
	}
	if at < 0 || address >= l.ranges[at].End() {
		return gpu.Range{}, false
	}
	return l.ranges[at], true
}

// all yields a copy of the set in the order of addresses.
func (l *live) all() iter.Seq[gpu.Range] { return slices.Values(slices.Clone(l.ranges)) }

func roundUp(n, unit uint64) uint64 { return (n + unit - 1) / unit * unit }
