package rpc

import (
	"sync"
	"time"
)

// tellTime is the time between two reports of the same phase.
const tellTime = 100 * time.Millisecond

// Teller sends the events of one stream, from any goroutine. Whether anybody hears them is found out elsewhere.
type Teller[E any] struct {
	// Send is the stream's.
	Send func(E) error

	mu    sync.Mutex // guards all below, and sending
	phase string
	last  time.Time
}

// Tell sends an event.
func (t *Teller[E]) Tell(event E) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.Send(event)
}

// TellLatest sends an event of a phase, and leaves out what comes too soon after the last report of its phase.
func (t *Teller[E]) TellLatest(phase string, event E) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	if phase == t.phase && now.Sub(t.last) < tellTime {
		return
	}
	t.phase, t.last = phase, now
	_ = t.Send(event)
}
