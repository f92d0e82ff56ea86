package order

import "github.com/phos-gpu/phos/scheduler"

// SJF is shortest job first: the lowest estimate is first, and running jobs run to their end. Among
// the orders without preemption it has the lowest mean completion time on one machine when all jobs
// are present from the beginning: W. E. Smith, "Various optimizers for single-stage production",
// Naval Research Logistics Quarterly 3, 1956.
type SJF struct{}

// Rank returns the owner's estimate.
func (SJF) Rank(_ scheduler.View, j *scheduler.Job) scheduler.Rank {
	return scheduler.Rank{Value: j.Estimate().Seconds()}
}
