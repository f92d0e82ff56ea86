package sim

import (
	"time"

	"github.com/phos-gpu/phos/scheduler/packed"
)

// arrivals are the jobs that have not arrived, next first.
type arrivals struct {
	jobs *packed.Jobs
	left []int32
	at   time.Duration // when the next one arrives; it is asked for at every step
}

// newArrivals returns all jobs as arrivals.
func newArrivals(jobs *packed.Jobs) arrivals {
	a := arrivals{jobs: jobs, left: jobs.Arrivals()}
	a.read()
	return a
}

// any reports whether a job has not arrived.
func (a *arrivals) any() bool { return len(a.left) > 0 }

// pop removes and returns the next one.
func (a *arrivals) pop() int32 {
	next := a.left[0]
	a.left = a.left[1:]
	a.read()
	return next
}

// read reads when the next one arrives.
func (a *arrivals) read() {
	if a.any() {
		a.at = a.jobs.Submit(int(a.left[0]))
	}
}
