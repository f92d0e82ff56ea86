package order

import (
	"time"

	"github.com/phos-gpu/phos/scheduler"
)

// Themis serves the job that is treated worst: the greatest finish-time fairness rho = T_shared /
// T_independent is first. T_shared is the job's completion time if it runs from now on, and
// T_independent how long it would take alone on its part of the cluster. K. Mahajan et al.,
// "Themis: Fair and Efficient GPU Cluster Scheduling", NSDI 2020, section 3. The paper's auction
// among the worst few, in which placement counts, is left out: it makes offers to a part 1-f of the
// jobs, and this is f = 1.
type Themis struct {
	// Lease is how long GPUs are allocated for: the ranks of waiting jobs are computed again at
	// multiples of it. Set the engine's quantum to the same value.
	Lease time.Duration

	// Contention is how many jobs share the cluster on average; a job's part is one divided by it. 0
	// means that each has what it asks for.
	Contention float64
}

// Rank returns -rho. While the job runs at full speed rho is constant; while it waits rho grows.
func (t Themis) Rank(v scheduler.View, j *scheduler.Job) scheduler.Rank {
	now, alone := v.Now(), t.alone(v, j)
	shared := now - j.Submitted() + j.Remaining(now)
	rank := scheduler.Rank{Value: -shared.Seconds() / alone}
	if j.Phase() == scheduler.Running {
		rank.Growth = (j.Speed() - 1) / alone
	} else if t.Lease > 0 {
		rank.Until = (now/t.Lease + 1) * t.Lease
	}
	return rank
}

// alone returns T_independent in seconds: a job that asks for more than its part of the cluster
// takes longer there.
func (t Themis) alone(v scheduler.View, j *scheduler.Job) float64 {
	estimate := max(j.Estimate(), time.Millisecond).Seconds()
	part := v.Capacity().GPUs / t.Contention
	if t.Contention <= 0 || part <= 0 {
		return estimate
	}
	return estimate * max(1, float64(j.RequestedGPUs())/part)
}

// Preempts returns true.
func (Themis) Preempts() bool { return true }
