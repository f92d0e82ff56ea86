package api

import (
	"sync"
	"time"
)

const (
	// reportTime is the minimum time between two reports of the same phase.
	reportTime = 100 * time.Millisecond
	// maxReports is how many reports wait in a queue. Of the same phase at most one does.
	maxReports = 16
)

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
	// held is the last report of the phase, if it came too soon. It is sent when the phase is over.
	held *E
}

// queued is an event in the queue, or a report of a phase, which the next one replaces.
type queued[E any] struct {
	event E
	phase string
}

// Push queues an event. It returns the first error of Send so far.
func (t *EventQueue[E]) Push(event E) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.enqueueHeld()
	t.enqueue(queued[E]{event: event})
	return t.failed
}

// PushLatest queues a report of a phase. The report is dropped if it follows the last one of its
// phase too soon, or if a later one replaces it in the queue. The last report of a phase is not
// dropped, unless the peer reads nothing.
func (t *EventQueue[E]) PushLatest(phase string, event E) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	if phase == t.phase && now.Sub(t.last) < reportTime {
		t.held = &event
		return
	}
	if phase != t.phase {
		t.enqueueHeld()
	}
	t.phase, t.last, t.held = phase, now, nil
	t.enqueue(queued[E]{event, phase})
}

// enqueueHeld queues the report that was held back. The caller holds t.mu.
func (t *EventQueue[E]) enqueueHeld() {
	if t.held != nil {
		t.enqueue(queued[E]{*t.held, t.phase})
		t.held = nil
	}
}

// enqueue appends an event and starts a sender if none runs. The caller holds t.mu.
func (t *EventQueue[E]) enqueue(next queued[E]) {
	if t.failed != nil {
		return
	}
	if n := len(t.queue); n > 0 && next.phase != "" {
		if waits := t.queue[n-1].phase; waits == next.phase || waits != "" && n >= maxReports {
			t.queue[n-1] = next
			return
		}
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
	t.enqueueHeld()
	sending := t.sending
	t.mu.Unlock()
	if sending != nil {
		<-sending
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.failed
}
