// Package timers keeps the times at which the engine must wake although no event happens.
//
// Most timers are stale by the time they expire, because what they were set for has changed. They
// are not removed at once: each timer carries a version, the queue asks whether it is still valid
// when it expires, and removes all invalid ones together when most must be invalid.
package timers

import (
	"slices"
	"time"
)

// Timer is a time at which something about a subject changes.
type Timer[T any] struct {
	At      time.Duration
	Subject T
	Number  int64 // breaks ties between timers of the same time
	Version int   // of the subject's state when the timer was set
}

func (a *Timer[T]) before(b *Timer[T]) bool {
	return a.At < b.At || a.At == b.At && a.Number < b.Number
}

// Queue is a set of timers, next one first. The zero value is empty.
type Queue[T any] struct {
	// run is timers in order. Most are set for the same time from now, so each new one is the last.
	run []Timer[T]
	// done is how many of them are removed.
	done int
	// heap is all others.
	heap  []Timer[T]
	valid func(Timer[T]) bool
}

// NewQueue returns a queue; valid reports whether a timer is still meaningful.
func NewQueue[T any](valid func(Timer[T]) bool) Queue[T] { return Queue[T]{valid: valid} }

// PopDue removes and returns the first valid timer that expires at now or earlier.
func (c *Queue[T]) PopDue(now time.Duration) (due Timer[T], ok bool) {
	for first := c.first(); first != nil && first.At <= now; first = c.first() {
		if a := c.popFirst(); c.valid(a) {
			return a, true
		}
	}
	return due, false
}

// Next returns when the first valid timer expires.
func (c *Queue[T]) Next() (time.Duration, bool) {
	for first := c.first(); first != nil; first = c.first() {
		if c.valid(*first) {
			return first.At, true
		}
		c.popFirst()
	}
	return 0, false
}

// first returns the first timer, valid or not; nil if there is none.
func (c *Queue[T]) first() *Timer[T] {
	switch {
	case c.done < len(c.run) && (len(c.heap) == 0 || !c.heap[0].before(&c.run[c.done])):
		return &c.run[c.done]
	case len(c.heap) > 0:
		return &c.heap[0]
	}
	return nil
}

// Add adds a timer. With that many subjects, the queue keeps only a few timers for each.
func (c *Queue[T]) Add(a Timer[T], subjects int) {
	if len(c.run)-c.done+len(c.heap) > 64+4*subjects {
		c.removeInvalid()
	}
	if last := len(c.run) - 1; last < c.done || c.run[last].before(&a) {
		if len(c.run) == cap(c.run) && c.done > len(c.run)/2 {
			c.removeDone()
		}
		c.run = append(c.run, a)
		return
	}
	c.heap = append(c.heap, a)
	h := c.heap
	for i := len(h) - 1; i > 0 && h[i].before(&h[(i-1)/2]); i = (i - 1) / 2 {
		h[i], h[(i-1)/2] = h[(i-1)/2], h[i]
	}
}

// removeDone moves what is left of the run to the beginning of its memory.
func (c *Queue[T]) removeDone() {
	c.run, c.done = slices.Delete(c.run, 0, c.done), 0
}

// removeInvalid removes all timers that are not valid.
func (c *Queue[T]) removeInvalid() {
	c.removeDone()
	invalid := func(a Timer[T]) bool { return !c.valid(a) }
	c.run, c.heap = slices.DeleteFunc(c.run, invalid), slices.DeleteFunc(c.heap, invalid)
	for i := len(c.heap) - 1; i >= 0; i-- {
		c.siftDown(i)
	}
}

// popFirst removes and returns the first timer, valid or not. The queue must not be empty.
func (c *Queue[T]) popFirst() Timer[T] {
	var none Timer[T]
	first := c.first()
	top := *first
	if c.done < len(c.run) && first == &c.run[c.done] {
		*first = none
		c.done++
		return top
	}
	last := len(c.heap) - 1
	c.heap[0], c.heap[last] = c.heap[last], none
	c.heap = c.heap[:last]
	c.siftDown(0)
	return top
}

// siftDown moves the timer at index i down until the heap is in order again.
func (c *Queue[T]) siftDown(i int) {
	h := c.heap
	for {
		least := i
		for below := 2*i + 1; below <= 2*i+2 && below < len(h); below++ {
			if h[below].before(&h[least]) {
				least = below
			}
		}
		if least == i {
			return
		}
		h[i], h[least] = h[least], h[i]
		i = least
	}
}
