package order

import "github.com/phos-gpu/phos/scheduler"

// SRTF is shortest remaining time first, preemptive. With true estimates and stops that cost
// nothing no order has a lesser mean completion time on one machine: L. Schrage, "A proof of the
// optimality of the shortest remaining processing time discipline", Operations Research 16(3),
// 1968.
type SRTF struct{}

// Rank is what is left by the owner's estimate. An overdue job is as good as done.
func (SRTF) Rank(v scheduler.View, j *scheduler.Job) scheduler.Rank {
	return scheduler.Rank{Value: j.Remaining(v.Now()).Seconds(), Growth: -j.Speed()}
}

// Preempts is true.
func (SRTF) Preempts() bool { return true }
