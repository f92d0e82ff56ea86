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

// Queue is a heap of timers, next one first. The zero value is empty.
type Queue[T any] struct {
	all   []Timer[T]
	valid func(Timer[T]) bool
}

// NewQueue returns a queue; valid reports whether a timer is still meaningful.
func NewQueue[T any](valid func(Timer[T]) bool) Queue[T] { return Queue[T]{valid: valid} }

// PopDue removes and returns the first valid timer that expires at now or earlier.
func (c *Queue[T]) PopDue(now time.Duration) (due Timer[T], ok bool) {
	for len(c.all) > 0 && c.all[0].At <= now {
		if a := c.popFirst(); c.valid(a) {
			return a, true
		}
	}
	return due, false
}

// Next returns when the first valid timer expires.
func (c *Queue[T]) Next() (time.Duration, bool) {
	for len(c.all) > 0 {
		if c.valid(c.all[0]) {
			return c.all[0].At, true
		}
		c.popFirst()
	}
	return 0, false
}

// Add adds a timer. With that many subjects, the queue keeps only a few timers for each.
func (c *Queue[T]) Add(a Timer[T], subjects int) {
	if len(c.all) > 64+4*subjects {
		c.all = slices.DeleteFunc(c.all, func(a Timer[T]) bool { return !c.valid(a) })
		for i := len(c.all) - 1; i >= 0; i-- {
			c.siftDown(i)
		}
	}
	c.all = append(c.all, a)
	h := c.all
	for i := len(h) - 1; i > 0 && h[i].before(&h[(i-1)/2]); i = (i - 1) / 2 {
		h[i], h[(i-1)/2] = h[(i-1)/2], h[i]
	}
}

// popFirst removes and returns the first timer, valid or not. The queue must not be empty.
func (c *Queue[T]) popFirst() Timer[T] {
	var none Timer[T]
	top, last := c.all[0], len(c.all)-1
	c.all[0], c.all[last] = c.all[last], none
	c.all = c.all[:last]
	c.siftDown(0)
	return top
}

// siftDown moves the timer at index i down until the heap is in order again.
func (c *Queue[T]) siftDown(i int) {
	h := c.all
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
