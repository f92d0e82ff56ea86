// Package timers keeps the times at which something changes although nothing happens: the engine
// wakes for them.
//
// Most alarms are void by the time they go off, because what they were set for has changed since.
// Nobody looks for them then to take them out: each carries the mark of what it was set for,
// whoever takes one asks whether that still holds, and when most must be void they are swept out
// together.
package timers

import (
	"slices"
	"time"
)

// Timer is a time at which something about a subject changes.
type Timer[T any] struct {
	At      time.Duration
	Subject T
	Number  int64 // decides between alarms of one time
	Version int   // what it is valid for: one that was set for another state of the subject is void
}

func (a *Timer[T]) before(b *Timer[T]) bool {
	return a.At < b.At || a.At == b.At && a.Number < b.Number
}

// Queue holds alarms, the next one first: it is a heap. The zero value has none.
type Queue[T any] struct {
	all   []Timer[T]
	valid func(Timer[T]) bool
}

// NewQueue makes one that asks whether an alarm still means something.
func NewQueue[T any](valid func(Timer[T]) bool) Queue[T] { return Queue[T]{valid: valid} }

// PopDue takes the first alarm if it is for now or earlier and still means something.
func (c *Queue[T]) PopDue(now time.Duration) (due Timer[T], ok bool) {
	for len(c.all) > 0 && c.all[0].At <= now {
		if a := c.popFirst(); c.valid(a) {
			return a, true
		}
	}
	return due, false
}

// Next is when the first alarm goes off that still means something.
func (c *Queue[T]) Next() (time.Duration, bool) {
	for len(c.all) > 0 {
		if c.valid(c.all[0]) {
			return c.all[0].At, true
		}
		c.popFirst()
	}
	return 0, false
}

// Add adds an alarm. Of so many subjects, no more than a few alarms each are kept.
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

func (c *Queue[T]) popFirst() Timer[T] {
	var none Timer[T]
	top, last := c.all[0], len(c.all)-1
	c.all[0], c.all[last] = c.all[last], none
	c.all = c.all[:last]
	c.siftDown(0)
	return top
}

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
