package order

import "github.com/phos-gpu/phos/scheduler"

// SRTF is shortest remaining time first, preemptive. With exact estimates and free preemption no
// order has a lower mean completion time on one machine: L. Schrage, "A proof of the optimality of
// the shortest remaining processing time discipline", Operations Research 16(3), 1968.
type SRTF struct{}

// Rank returns the remaining time by the owner's estimate; 0 for an overdue job.
func (SRTF) Rank(v scheduler.View, j *scheduler.Job) scheduler.Rank {
	return scheduler.Rank{Value: j.Remaining(v.Now()).Seconds(), Growth: -j.Speed()}
}

// Preempts returns true.
func (SRTF) Preempts() bool { return true }
