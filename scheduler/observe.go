package scheduler

import "time"

// Observer is told of decisions that a Plan does not have, while Step makes them. It must not call
// the engine, and must not keep the jobs.
type Observer interface {
	// Admitted is called when a job is admitted.
	Admitted(j *Job)
	// Preempts is called before a job is stopped so that another one gets its GPUs.
	Preempts(victim, by *Job)
	// Overtakes is called when a job starts although one before it in the queue could not.
	Overtakes(j *Job)
	// Promised is called for waiting jobs with a reservation, in each walk that considers them.
	Promised(j *Job, start time.Duration)
}

// Observe sets the observer; nil for none. A Fork has none.
func (e *Engine) Observe(o Observer) { e.observer = o }

// observeStart tells the observer of a start that overtakes a blocked job.
func (e *Engine) observeStart(j *Job) {
	if e.observer != nil && len(e.blocked) > 0 {
		e.observer.Overtakes(j)
	}
}

// observePreemptions tells the observer for which job others are about to be stopped.
func (e *Engine) observePreemptions(victims []*Job, by *Job) {
	if e.observer == nil {
		return
	}
	for _, v := range victims {
		e.observer.Preempts(v, by)
	}
}

// observePromise tells the observer of a waiting job's reservation, if the Backfiller says when it
// begins.
func (e *Engine) observePromise(j *Job) {
	if e.observer == nil {
		return
	}
	book, ok := e.policies.Backfill.(interface {
		ReservedFor(j *Job) (at time.Duration, ok bool)
	})
	if !ok {
		return
	}
	if at, ok := book.ReservedFor(j); ok && at < Forever {
		e.observer.Promised(j, at)
	}
}
