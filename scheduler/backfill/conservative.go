package backfill

import (
	"time"

	"github.com/phos-gpu/phos/scheduler"
)

// Conservative makes a reservation for each job when it first waits, and keeps it: it moves only
// forward. When a run ends before it was expected, the reservations are compressed: in the jobs'
// order each is taken out and put back at the earliest time. It belongs to one engine.
//
// All reservations are made again after a setback: a run that takes longer than expected, or a node
// that fails.
type Conservative struct {
	book
	depth      int // 0 means all jobs
	deviations int
	setbacks   int
	queued     func() int

	// compressing is set in a walk after a run has ended early: each job that the walk visits may move
	// forward, to a start before compressUntil. Later, nothing has become free since it was examined.
	compressing   bool
	compressUntil time.Duration
	// vacated is when the last slot ends that was given up since compressUntil was set.
	vacated time.Duration
	// full is set when the walk makes no more reservations.
	full    bool
	visited int
	// startable is how many jobs whose reservation has begun were not visited yet.
	startable int
	// granted is the job that may start next; it may have started since.
	granted *scheduler.Job
}

// NewConservative returns a Backfiller that makes reservations for the first depth waiting jobs; 0
// means all of them.
func NewConservative(depth int) *Conservative { return &Conservative{depth: depth} }

// Open begins a walk.
func (c *Conservative) Open(v scheduler.View) scheduler.Reservations {
	free := v.Free()
	if free != c.free || free.Setbacks() != c.setbacks {
		c.clear(free)
	}
	c.round = roundOf(v)
	last := c.now
	c.now, c.compressing = v.Now(), free.Deviations() != c.deviations
	c.setbacks, c.deviations = free.Setbacks(), free.Deviations()
	if c.compressing && c.depth == 0 {
		c.compressUntil = 0 // each job is examined in this walk
	}
	c.compressUntil = max(c.compressUntil, free.EarlyUntil())
	c.full, c.visited, c.startable, c.granted = false, 0, 0, nil
	if e, ok := v.(interface{ Queued() int }); ok {
		c.queued = e.Queued
	}
	c.removeEnded(last)
	if c.compressing {
		c.resetBounds()
		c.compressUntil, c.vacated = max(c.compressUntil, c.vacated), 0
	}
	for _, p := range c.profiles {
		p.reserved.expire(c.now)
	}
	return c
}

// removeEnded removes the reservations of jobs that no longer wait, and of those that could have
// started in the last walk: something other than GPUs keeps them. If the time of another one has
// passed, the engine was called late, and all are made again.
func (c *Conservative) removeEnded(last time.Duration) {
	for j, r := range c.reservations {
		switch {
		case j.Phase() != scheduler.Waiting:
			c.removeStarted(r)
		case r.from <= last && r.from < c.now:
			c.giveUp(r)
		case r.from < c.now:
			c.setbacks = outdated
		}
	}
	if c.setbacks == outdated {
		c.setbacks = c.free.Setbacks()
		c.startAgain()
	}
	for _, r := range c.reservations {
		if r.from == c.now {
			c.startable++
		}
	}
}

// startAgain removes all reservations: the walk makes them again in the jobs' order.
func (c *Conservative) startAgain() {
	c.clear(c.free)
	c.startable, c.compressUntil, c.vacated = 0, 0, 0
}

// outdated stands for a number of setbacks that is never current.
const outdated = -1

// giveUp removes a reservation whose GPUs are free then.
func (c *Conservative) giveUp(r reservation) {
	c.remove(r)
	c.compressing, c.vacated = true, max(c.vacated, r.to)
}

// removeStarted removes the reservation of a job that no longer waits. The GPUs of a running one
// are part of what is allocated now. A run that takes longer than was reserved is a setback: the
// next walk makes all reservations again. This one goes on with the others, so that no job starts
// before one that it has passed.
func (c *Conservative) removeStarted(r reservation) {
	if r.job.Phase() != scheduler.Running || r.job.Since() != r.from || r.job.Due() < r.to {
		c.giveUp(r)
		return
	}
	c.remove(r)
	if r.job.Due() > r.to {
		c.setbacks = outdated
	}
}

// settleGranted removes the reservation of the job that was granted a start, if it has started.
func (c *Conservative) settleGranted() {
	j := c.granted
	c.granted = nil
	if r, ok := c.reservations[j]; ok && j.Phase() != scheduler.Waiting {
		c.startable--
		c.removeStarted(r)
	}
}

// MaxRuntime returns how long a job may run if it starts now.
func (c *Conservative) MaxRuntime(j *scheduler.Job) time.Duration {
	c.settleGranted()
	r, ok := c.reservations[j]
	if !ok {
		return c.runtimeLimit(j)
	}
	if r.from > c.now && c.compressing && !c.full {
		r = c.moveForward(r)
	}
	if r.from > c.now {
		return 0
	}
	c.granted = j
	return scheduler.Forever
}

// moveForward moves a reservation to the earliest time.
func (c *Conservative) moveForward(r reservation) reservation {
	long, limit := r.job.ExpectedRuntime(c.now), min(r.from, max(c.compressUntil, c.vacated))
	from := c.earliestBetween(c.now, limit, r.job, r.gpus, long)
	slides := limit == r.from && c.freeBefore(r.from, r.job, r.gpus)
	if from >= limit && !slides {
		return r
	}
	c.remove(r)
	moved := r
	moved.from = c.earliestBetween(c.now, r.from, r.job, r.gpus, long)
	moved.to = end(moved.from, long)
	if moved.from >= r.from {
		c.add(r)
		return r
	}
	c.vacated = max(c.vacated, r.to)
	c.resetBounds()
	c.add(moved)
	if moved.from <= c.now {
		c.startable++
	}
	return moved
}

// ClassLimit returns how long a job without a reservation that requests the same GPUs may run.
func (c *Conservative) ClassLimit(j *scheduler.Job) time.Duration {
	c.settleGranted()
	if c.allReserved() {
		return 0
	}
	return c.runtimeLimit(j)
}

// allReserved reports whether every waiting job has a reservation.
func (c *Conservative) allReserved() bool {
	return c.queued != nil && len(c.reservations) == c.queued()
}

// Reserve makes a reservation for a job that cannot start now, unless it has one.
func (c *Conservative) Reserve(j *scheduler.Job) (more bool) {
	c.settleGranted()
	c.visited++
	if r, ok := c.reservations[j]; ok {
		if r.from <= c.now {
			c.startable--
		}
	} else if c.depth == 0 || len(c.reservations) < c.depth {
		c.reserve(j)
	}
	c.full = !c.wantsMore()
	return !c.full
}

// wantsMore reports whether the walk must visit the next job, too.
func (c *Conservative) wantsMore() bool {
	switch {
	case c.startable > 0:
		return true
	case c.depth > 0:
		return c.visited < c.depth
	}
	return c.compressing || !c.allReserved()
}

// NextStart returns when the next reservation begins: the engine must walk then, even if no event
// has happened.
func (c *Conservative) NextStart() (at time.Duration, ok bool) {
	for j, r := range c.reservations {
		if j.Phase() == scheduler.Waiting && r.from > c.now && r.from < scheduler.Forever && (!ok || r.from < at) {
			at, ok = r.from, true
		}
	}
	return at, ok
}

// ReservedFor returns when a waiting job's reservation begins, as of the last walk; Forever if its
// GPUs are never expected to be free.
func (c *Conservative) ReservedFor(j *scheduler.Job) (at time.Duration, ok bool) {
	r, ok := c.reservations[j]
	return r.from, ok
}
