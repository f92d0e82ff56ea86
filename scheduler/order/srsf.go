package order

import (
	"github.com/phos-gpu/phos/scheduler"
	"github.com/phos-gpu/phos/scheduler/cluster"
)

// SRSF is shortest remaining service first: the remaining time multiplied by the GPUs, so that a
// short job on many GPUs does not go before many slightly longer jobs on one GPU each. It is the
// baseline of J. Gu et al., "Tiresias: A GPU Cluster Manager for Distributed Deep Learning", NSDI
// 2019.
type SRSF struct{}

// Rank returns the remaining GPU-time by the owner's estimate.
func (SRSF) Rank(v scheduler.View, j *scheduler.Job) scheduler.Rank {
	gpus := float64(j.RequestedGPUs()*j.Share()) / cluster.WholeGPU
	return scheduler.Rank{Value: j.Remaining(v.Now()).Seconds() * gpus, Growth: -j.Speed() * gpus}
}

// Preempts returns true.
func (SRSF) Preempts() bool { return true }
