package space

import "sync/atomic"

// table holds a number for each chunk of a window, initially 0. A window has far more addresses
// than memory, so each part of the table is allocated on first write.
type table []atomic.Pointer[part]

// partChunks is the number of chunks of a part: 8 GiB of addresses.
const partChunks = 4096

type part [partChunks]atomic.Uint32

func newTable(chunks uint64) table { return make(table, (chunks+partChunks-1)/partChunks) }

func (t table) load(i uint64) uint32 {
	if p := t[i/partChunks].Load(); p != nil {
		return p[i%partChunks].Load()
	}
	return 0
}

// at returns the number of a chunk for writing.
func (t table) at(i uint64) *atomic.Uint32 {
	place := &t[i/partChunks]
	p := place.Load()
	for p == nil {
		place.CompareAndSwap(nil, new(part))
		p = place.Load()
	}
	return &p[i%partChunks]
}

// each calls do for all numbers that are not 0.
func (t table) each(do func(i uint64, value uint32)) {
	for first := range t {
		p := t[first].Load()
		if p == nil {
			continue
		}
		for i := range p {
			if value := p[i].Load(); value != 0 {
				do(uint64(first)*partChunks+uint64(i), value)
			}
		}
	}
}
