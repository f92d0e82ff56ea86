package order

import "github.com/phos-gpu/phos/scheduler"

// Priority serves jobs by priority, highest first, and jobs of equal priority by arrival.
type Priority struct {
	// Preemptive lets a job preempt running ones of lower priority.
	Preemptive bool
}

// Rank returns the tier of a job's priority.
func (Priority) Rank(_ scheduler.View, j *scheduler.Job) scheduler.Rank {
	return scheduler.Rank{Tier: -j.Priority()}
}

// Preempts reports whether the order is configured to preempt.
func (p Priority) Preempts() bool { return p.Preemptive }
