package order

import (
	"math"
	"time"

	"github.com/phos-gpu/phos/scheduler"
)

// DLAS is discretized least attained service: J. Gu et al., "Tiresias: A GPU Cluster Manager for
// Distributed Deep Learning", NSDI 2019, section 4. A job sinks from queue to queue as its service
// passes the limits; within a queue, whoever started first goes first, so that equals do not push
// each other aside.
//
// A promotion holds for one run: the job goes on in the first queue, and what it has in that run
// counts from nothing. (Tiresias forgets the earlier service for good. A policy without memory
// cannot, and the wait that it takes to be promoted again is in proportion to all that the job has
// had, so nobody starves by it.)
type DLAS struct {
	// Limits part the queues, ascending: one queue more than limits.
	Limits []time.Duration

	// TwoD counts GPU-time, as Tiresias does; otherwise it is running time.
	TwoD bool

	// Promote is Tiresias's PROMOTEKNOB: a job that has waited for this many times what it has run
	// goes back to the first queue; 0 means never.
	Promote float64
}

// Rank is the queue, then the first start.
func (d DLAS) Rank(v scheduler.View, j *scheduler.Job) scheduler.Rank {
	now, running := v.Now(), j.Phase() == scheduler.Running
	served, rate, had := d.served(j, now)
	rank := scheduler.Rank{Value: math.MaxFloat64}
	if first, started := j.FirstStart(); started {
		rank.Value = first.Seconds()
	}
	if d.Promote > 0 && had > 0 {
		switch wait := time.Duration(d.Promote * float64(had)); {
		case j.Waited(now) >= wait && !running:
			return rank
		case j.Waited(now) >= wait:
			before, _, _ := d.served(j, j.Since())
			served -= before
		case !running:
			rank.Until = now - j.Waited(now) + wait
		}
	}
	for rank.Tier < len(d.Limits) && served >= d.Limits[rank.Tier] {
		rank.Tier++
	}
	if running && rank.Tier < len(d.Limits) {
		left := float64(d.Limits[rank.Tier]-served) / rate
		rank.Until = max(now, j.WorksFrom()) + time.Duration(math.Ceil(left))
	}
	return rank
}

// served is the service that counts, how fast it grows while the job runs, and how long earlier
// runs took.
func (d DLAS) served(j *scheduler.Job, now time.Duration) (served time.Duration, rate float64, had time.Duration) {
	had = j.Attained(now)
	if j.Phase() == scheduler.Running {
		had = j.Attained(j.Since())
	}
	if d.TwoD {
		return j.Service(now), width(j), had
	}
	return j.Attained(now), 1, had
}

// Preempts is true.
func (DLAS) Preempts() bool { return true }
