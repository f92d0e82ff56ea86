package cuda

import (
	"slices"

	"github.com/phos-gpu/phos/cgo/cudadrv"
	"github.com/phos-gpu/phos/daemon/gpu"
)

// piece is a range of addresses with something behind it.
type piece struct {
	gpu.Range
	// allocation is zero for what is no memory of Map's: host memory, variables of modules.
	allocation cudadrv.Allocation
	owner      *Context
	host       []byte
}

// table is all that lies somewhere on a device, by address. Ranges do not overlap.
type table struct{ pieces []piece }

// at returns the index of the first piece that ends behind an address.
func (t *table) at(address uint64) int {
	i, _ := slices.BinarySearchFunc(t.pieces, address, func(p piece, address uint64) int {
		if p.End() <= address {
			return -1
		}
		return 1
	})
	return i
}

// find returns the piece that an address lies in, nil where there is none.
func (t *table) find(address uint64) *piece {
	i := t.at(address)
	if i == len(t.pieces) || t.pieces[i].Address > address {
		return nil
	}
	return &t.pieces[i]
}

// free reports whether nothing lies in a range.
func (t *table) free(r gpu.Range) bool {
	i := t.at(r.Address)
	return i == len(t.pieces) || t.pieces[i].Address >= r.End()
}

// add puts a piece into a free range; false where it is not free.
func (t *table) add(p piece) bool {
	if !t.free(p.Range) {
		return false
	}
	t.pieces = slices.Insert(t.pieces, t.at(p.Address), p)
	return true
}

// remove takes a piece out by its first address.
func (t *table) remove(address uint64) (piece, bool) {
	i := t.at(address)
	if i == len(t.pieces) || t.pieces[i].Address != address {
		return piece{}, false
	}
	p := t.pieces[i]
	t.pieces = slices.Delete(t.pieces, i, i+1)
	return p, true
}

// covered is how many bytes from an address on, at most so many, have something behind them without a gap.
func (t *table) covered(address, bytes uint64) uint64 {
	at := address
	for i := t.at(address); i < len(t.pieces) && t.pieces[i].Address <= at && at-address < bytes; i++ {
		at = t.pieces[i].End()
	}
	return min(at-address, bytes)
}

// within lists the pieces that overlap a range.
func (t *table) within(r gpu.Range) []piece {
	from := t.at(r.Address)
	to := from
	for to < len(t.pieces) && t.pieces[to].Address < r.End() {
		to++
	}
	return t.pieces[from:to]
}
