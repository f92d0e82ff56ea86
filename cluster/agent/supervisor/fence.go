package supervisor

import (
	"errors"
	"sync"
	"time"

	"github.com/phos-gpu/phos/internal/linux/boottime"
)

// fence kills the processes when the deadline passes. It needs no disk, no lock of others, and
// nothing of the agent.
type fence struct {
	kill func() error
	// timer is nil if there is no deadline.
	timer *boottime.Timer

	mu       sync.Mutex // guards deadline and over
	deadline time.Duration
	over     bool
}

// newFence returns a fence for a deadline; 0 means that there is none.
func newFence(deadline time.Duration, kill func() error) (*fence, error) {
	f := &fence{kill: kill, deadline: deadline}
	if deadline == 0 {
		return f, nil
	}
	var err error
	if f.timer, err = boottime.NewTimer(); err != nil {
		return nil, err
	}
	return f, f.timer.Set(deadline)
}

// extend moves the deadline to a later time, unless it has passed.
func (f *fence) extend(until time.Duration) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.passed() {
		return ErrFenced
	}
	if f.timer == nil || until <= f.deadline {
		return nil
	}
	f.deadline = until
	return f.timer.Set(until)
}

// passed reports whether the deadline has passed. That is final, also if the timer is late.
func (f *fence) passed() bool {
	f.over = f.over || f.timer != nil && boottime.Now() >= f.deadline
	return f.over
}

// watch waits for the deadline, kills the processes, and calls then.
func (f *fence) watch(then func(killed error)) {
	for f.timer != nil {
		err := f.timer.Wait()
		f.mu.Lock()
		over := f.passed()
		f.mu.Unlock()
		if err != nil || over { // without a timer there is no right to run
			then(errors.Join(f.kill(), err))
			return
		}
	}
}
