package api

import (
	"sync"
	"time"
)

// tellTime is the time between two reports of the same phase.
const tellTime = 100 * time.Millisecond

// Teller sends the events of one stream, from any goroutine. Nobody waits for the other end: a
// caller who has been stopped and takes nothing must not hold up what it is told about.
type Teller[E any] struct {
	// Send is the stream's.
	Send func(E) error

	mu      sync.Mutex // guards all below
	queue   []told[E]
	sending chan struct{} // closed when nothing is left to be sent; nil when nothing is
	failed  error
	phase   string
	last    time.Time
}

// told is an event on its way. A passing one is replaced by the next one.
type told[E any] struct {
	event   E
	passing bool
}

// Tell sends an event, after those before it. It only knows of failures so far.
func (t *Teller[E]) Tell(event E) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.push(told[E]{event, false})
	return t.failed
}

// TellLatest sends an event of a phase, and leaves out what comes too soon after the last report of
// its phase, or is overtaken by a later one.
func (t *Teller[E]) TellLatest(phase string, event E) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	if phase == t.phase && now.Sub(t.last) < tellTime {
		return
	}
	t.phase, t.last = phase, now
	t.push(told[E]{event, true})
}

func (t *Teller[E]) push(next told[E]) {
	if t.failed != nil {
		return
	}
	if n := len(t.queue); n > 0 && next.passing && t.queue[n-1].passing {
		t.queue[n-1] = next
		return
	}
	t.queue = append(t.queue, next)
	if t.sending == nil {
		t.sending = make(chan struct{})
		go t.send()
	}
}

func (t *Teller[E]) send() {
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

// Finish waits until everything is sent, or the stream has ended. It comes before the stream's
// handler returns.
func (t *Teller[E]) Finish() error {
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
