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

func (l *deferred) put(bytes uint64, do func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.later = append(l.later, do)
	l.bytes += bytes
}

// take removes and returns all that waits.
func (l *deferred) take() (later []func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	later, l.later, l.bytes = l.later, nil, 0
	return later
}

// pinned returns how much pinned memory is freed but not given back yet.
func (l *deferred) pinned() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.bytes
}

// empty reports whether nothing waits.
func (l *deferred) empty() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.later) == 0
}

// Defers reports whether frees must wait until all GPUs are idle. It needs no lock.
func (s *Reclaimer) Defers() bool { return s.state.keeps.Load() }

// DeferFrees is called when a device opens whose memory keeps what it cannot give back yet.
func (s *Reclaimer) DeferFrees() { s.state.keeps.Store(true) }

// Defer runs do, which gives back pinned memory, when all GPUs are idle. It needs no lock.
func (s *Reclaimer) Defer(bytes uint64, do func()) { s.state.put(bytes, do) }

// PinnedBytes returns how much pinned memory is freed but not given back yet. It needs no lock.
func (s *Reclaimer) PinnedBytes() uint64 { return s.state.pinned() }

// CountFrees adds to the number of frees that wait for submitted work. It needs no lock.
func (s *Reclaimer) CountFrees(count int64) { s.state.frees.Add(count) }
