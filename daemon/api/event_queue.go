package api

import (
	"sync"
	"time"
)

// reportTime is the minimum time between two reports of the same phase.
const reportTime = 100 * time.Millisecond

// EventQueue queues the events of one stream. Its methods are safe for concurrent use and do not
// wait for the peer: a stopped client must not block the operation that it watches.
type EventQueue[E any] struct {
	// Send is the stream's Send.
	Send func(E) error

	mu      sync.Mutex // guards all below
	queue   []queued[E]
	sending chan struct{} // closed when the queue has been drained; nil while it is empty
	failed  error
	phase   string
	last    time.Time
}

// queued is an event in the queue. If it is replaceable, the next replaceable event replaces it.
type queued[E any] struct {
	event       E
	replaceable bool
}

// Push queues an event. It returns the first error of Send so far.
func (t *EventQueue[E]) Push(event E) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.enqueue(queued[E]{event, false})
	return t.failed
}

// PushLatest queues a report of a phase. The report is dropped if it follows the last one of its
// phase too soon, or if a later one replaces it in the queue.
func (t *EventQueue[E]) PushLatest(phase string, event E) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	if phase == t.phase && now.Sub(t.last) < reportTime {
		return
	}
	t.phase, t.last = phase, now
	t.enqueue(queued[E]{event, true})
}

// enqueue appends an event and starts a sender if none runs. The caller holds t.mu.
func (t *EventQueue[E]) enqueue(next queued[E]) {
	if t.failed != nil {
		return
	}
	if n := len(t.queue); n > 0 && next.replaceable && t.queue[n-1].replaceable {
		t.queue[n-1] = next
		return
	}
	t.queue = append(t.queue, next)
	if t.sending == nil {
		t.sending = make(chan struct{})
		go t.drain()
	}
}

// drain sends queued events until the queue is empty or Send fails.
func (t *EventQueue[E]) drain() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for len(t.queue) > 0 && t.failed == nil {
		next := t.queue[0]
		t.queue = t.queue[1:]
		t.mu.Unlock()
		err := t.Send(next.event)
		t.mu.Lock()
		t.failed = err
	}
	t.queue = nil
	close(t.sending)
	t.sending = nil
}

// Flush waits until all events are sent or Send has failed. Call it before the stream's handler
// returns.
func (t *EventQueue[E]) Flush() error {
	t.mu.Lock()
	sending := t.sending
	t.mu.Unlock()
	if sending != nil {
		<-sending
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.failed
}
