package core

import (
	"sync"

	"github.com/phos-gpu/phos/daemon/gpu"
)

// backlog bounds what is submitted and not done. A program that only submits is told to wait before
// it fills the worker's memory. It never stops the ring: what streams wait for, the end of a host
// function, comes through it.
type backlog struct {
	mu    sync.Mutex // streams use it
	units int
	full  bool
	tell  func(full bool)
}

// Units of the backlog are pieces of work, and every UnitBytes that they keep.
const (
	UnitBytes = 512
	// MarkUnits is how much a stream takes before it counts: a stream that never gets so much is not
	// worth it.
	MarkUnits = 256
	FullUnits = 32 << 10
	freeUnits = FullUnits / 2
)

func (b *backlog) Add(units int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.units += units; b.units > FullUnits && !b.full {
		b.full = true
		b.tell(true)
	}
}

func (b *backlog) Done(units int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.units -= units; b.units < freeUnits && b.full {
		b.full = false
		b.tell(false)
	}
}

// CountBytes counts the bytes that the stream's next work keeps.
func (st *Stream) CountBytes(bytes int) { st.units += bytes / UnitBytes }

// count adds the work that was just submitted to the backlog, in pieces, and lets the stream say
// when each is done.
func (st *Stream) count() {
	if st.units++; st.units < MarkUnits {
		return
	}
	units := st.units
	st.units = 0
	st.backlog.Add(units)
	if st.Work.Submit(gpu.Completion{Func: func() { st.backlog.Done(units) }}) != nil {
		st.backlog.Done(units)
	}
}
