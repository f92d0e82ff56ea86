package reclaim

import (
	"sync"
	"sync/atomic"
)

// deferred is what waits until all GPUs are idle. Its methods need no lock of the session.
type deferred struct {
	// keeps is set when a device opens whose memory keeps what it cannot give back yet.
	keeps atomic.Bool
	// watched is set while watch runs, more when there may be more to reclaim than at its last look.
	watched, more atomic.Bool
	// frees counts frees that wait for submitted work.
	frees atomic.Int64
	// workDone is what workDone returned last; the session's lock guards it.
	workDone chan struct{}

	mu    sync.Mutex
	later []func()
	bytes uint64 // of pinned memory in later
}

func (d *deferred) put(bytes uint64, do func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.later = append(d.later, do)
	d.bytes += bytes
}

// take removes and returns all that waits.
func (d *deferred) take() (later []func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	later, d.later, d.bytes = d.later, nil, 0
	return later
}

// pinned returns how much pinned memory is freed but not given back yet.
func (d *deferred) pinned() uint64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.bytes
}

// empty reports whether nothing waits.
func (d *deferred) empty() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.later) == 0
}

// Defers reports whether frees must wait until all GPUs are idle. It needs no lock.
func (r *Reclaimer) Defers() bool { return r.state.keeps.Load() }

// DeferFrees is called when a device opens whose memory keeps what it cannot give back yet.
func (r *Reclaimer) DeferFrees() { r.state.keeps.Store(true) }

// Defer runs do, which gives back pinned memory, when all GPUs are idle. It needs no lock.
func (r *Reclaimer) Defer(bytes uint64, do func()) { r.state.put(bytes, do) }

// PinnedBytes returns how much pinned memory is freed but not given back yet. It needs no lock.
func (r *Reclaimer) PinnedBytes() uint64 { return r.state.pinned() }

// CountFrees adds to the number of frees that wait for submitted work. It needs no lock.
func (r *Reclaimer) CountFrees(count int64) { r.state.frees.Add(count) }
