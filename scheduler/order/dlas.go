package order

import (
	"math"
	"time"

	"github.com/phos-gpu/phos/scheduler"
)

// DLAS is discretized least attained service: J. Gu et al., "Tiresias: A GPU Cluster Manager for
// Distributed Deep Learning", NSDI 2019, section 4. A job moves to the next queue as its service
// passes each limit; within a queue, jobs are ordered by their first start, so that equals do not
// preempt each other.
//
// A promotion holds for one run: the job runs in the first queue, and its service in that run
// counts from 0. (Tiresias discards the earlier service for good. A policy without state cannot.
// The wait for the next promotion is proportional to all the service that the job has had, so no
// job starves.)
type DLAS struct {
	// Limits separate the queues, ascending: there is one more queue than limits.
	Limits []time.Duration

	// TwoD counts GPU-time, as Tiresias does; otherwise running time.
	TwoD bool

	// Promote is Tiresias's PROMOTEKNOB: a job that has waited this many times longer than it has run
	// returns to the first queue; 0 means never.
	Promote float64
}

// Rank orders by queue, then by first start.
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

// served returns the service that counts, its growth rate while the job runs, and the running time
// of earlier runs.
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

// Preempts returns true.
func (DLAS) Preempts() bool { return true }
