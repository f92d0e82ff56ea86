package backfill

import (
	"time"

	"github.com/phos-gpu/phos/scheduler"
)

// EASY makes a reservation for the first blocked job of each walk. It belongs to one engine.
type EASY struct {
	book
	// decides is the time between the engine's decisions: the job starts at the next one after its
	// reservation begins.
	decides time.Duration
}

// NewEASY returns EASY backfilling.
func NewEASY() *EASY { return &EASY{} }

// Open begins a walk.
func (e *EASY) Open(v scheduler.View) scheduler.Reservations {
	e.now = v.Now()
	e.decides = roundOf(v)
	e.clear(v.Free())
	return e
}

// Reserve makes the reservation of the first blocked job.
func (e *EASY) Reserve(j *scheduler.Job) (more bool) {
	e.reserve(j)
	return false
}

// MaxRuntime returns how long a job may run if it starts now.
func (e *EASY) MaxRuntime(j *scheduler.Job) time.Duration { return e.runtimeLimit(j) }

// ClassLimit returns how long jobs with the same request may run if they start now.
func (e *EASY) ClassLimit(j *scheduler.Job) time.Duration { return e.runtimeLimit(j) }

// ReservedFor returns when a job starts by its reservation, as of the last walk; Forever if its
// GPUs are never expected to be free.
func (e *EASY) ReservedFor(j *scheduler.Job) (at time.Duration, ok bool) {
	r, ok := e.reservations[j]
	return decision(r.from, e.decides), ok
}
