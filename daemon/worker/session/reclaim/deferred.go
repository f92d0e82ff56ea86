package reclaim

import (
	"sync"
	"sync/atomic"
)

// Some drivers wait for all work before they take memory back, and work may wait for a word that
// the program's next call writes. So whoever handles the program's calls never asks for that while
// anything is at work: what is freed then is kept (gpu.Keeper), or put off, until all GPUs rest.

// deferred is what is put off until all GPUs rest.
type deferred struct {
	// keeps says that there is a device that keeps what it cannot give back yet.
	keeps atomic.Bool
	// watched: somebody waits for a rest, in which more can be given back than when he looked last.
	watched, more atomic.Bool
	// frees counts what will be freed when work is done that was submitted.
	frees atomic.Int64

	mu    sync.Mutex
	later []func()
	bytes uint64 // of pinned memory among it
}

func (l *deferred) put(bytes uint64, do func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.later = append(l.later, do)
	l.bytes += bytes
}

func (l *deferred) take() (later []func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	later, l.later, l.bytes = l.later, nil, 0
	return later
}

// pinned is how much pinned memory is freed, and not given back yet.
func (l *deferred) pinned() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.bytes
}

func (l *deferred) empty() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.later) == 0
}

// Defers reports whether a device keeps what it cannot give back yet.
func (s *Reclaimer) Defers() bool { return s.state.keeps.Load() }

// DeferFrees is called when a device is opened that keeps what it cannot give back yet.
func (s *Reclaimer) DeferFrees() { s.state.keeps.Store(true) }

// Later puts off what gives pinned memory back.
func (s *Reclaimer) Later(bytes uint64, do func()) { s.state.put(bytes, do) }

// PinnedBytes is how much pinned memory is freed, and not given back yet.
func (s *Reclaimer) PinnedBytes() uint64 { return s.state.pinned() }

// Freeing counts what will be freed when work is done that was submitted.
func (s *Reclaimer) Freeing(count int64) { s.state.frees.Add(count) }
