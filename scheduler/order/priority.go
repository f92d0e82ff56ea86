package order

import "github.com/phos-gpu/phos/scheduler"

// Priority serves the jobs of the highest priority first, and those of one priority as they came.
type Priority struct {
	// Preemptive lets a job push running ones of less priority aside.
	Preemptive bool
}

// Rank puts a job into its priority's tier.
func (Priority) Rank(_ scheduler.View, j *scheduler.Job) scheduler.Rank {
	return scheduler.Rank{Tier: -j.Priority()}
}

// Preempts is as it was asked for.
func (p Priority) Preempts() bool { return p.Preemptive }
