package order

import "github.com/phos-gpu/phos/scheduler"

// SJF is shortest job first: the least estimate goes first, and whoever runs runs to its end. Among
// the orders that stop nobody it has the least mean completion time on one machine when all jobs
// are there from the beginning: W. E. Smith, "Various optimizers for single-stage production",
// Naval Research Logistics Quarterly 3, 1956.
type SJF struct{}

// Rank is the owner's estimate.
func (SJF) Rank(_ scheduler.View, j *scheduler.Job) scheduler.Rank {
	return scheduler.Rank{Value: j.Estimate().Seconds()}
}
