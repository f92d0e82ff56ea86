package supervisor

import (
	"slices"
	"sync"
)

// course is how far the attempt is, as all goroutines of a supervisor see it.
type course struct {
	mu     sync.Mutex // guards status and next
	status Status
	// next is closed at the next change.
	next chan struct{}
}

func newCourse(status Status) *course { return &course{status: status, next: make(chan struct{})} }

// change changes the Status.
func (c *course) change(how func(*Status)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	how(&c.status)
	close(c.next)
	c.next = make(chan struct{})
}

// now returns the Status, and what is closed at its next change.
func (c *course) now() (Status, <-chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	status := c.status
	status.Processes = slices.Clone(status.Processes)
	return status, c.next
}

// state returns how far the attempt is.
func (c *course) state() State {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.status.State
}

// await waits until a condition on the Status holds. It returns false if stop is closed before.
func (c *course) await(stop <-chan struct{}, holds func(*Status) bool) (Status, bool) {
	for {
		status, next := c.now()
		if holds(&status) {
			return status, true
		}
		select {
		case <-next:
		case <-stop:
			return status, false
		}
	}
}
