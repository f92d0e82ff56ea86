package order

import (
	"github.com/phos-gpu/phos/cluster"
	"github.com/phos-gpu/phos/scheduler"
)

// SRSF is shortest remaining service first: what is left, times the GPUs that it takes, so that a
// short job of many GPUs does not go before many that are a little longer and have one each. It is
// the yardstick of J. Gu et al., "Tiresias: A GPU Cluster Manager for Distributed Deep Learning",
// NSDI 2019.
type SRSF struct{}

// Rank is the GPU-time that is left by the owner's estimate.
func (SRSF) Rank(v scheduler.View, j *scheduler.Job) scheduler.Rank {
	gpus := float64(j.RequestedGPUs()*j.Share()) / cluster.WholeGPU
	return scheduler.Rank{Value: j.Remaining(v.Now()).Seconds() * gpus, Growth: -j.Speed() * gpus}
}

// Preempts is true.
func (SRSF) Preempts() bool { return true }
