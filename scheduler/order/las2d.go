package order

import (
	"github.com/phos-gpu/phos/scheduler"
	"github.com/phos-gpu/phos/scheduler/cluster"
)

// LAS2D is least attained service in two dimensions, time and GPUs: a job on eight GPUs attains
// eight times as much in a second as a job on one. It is 2D-LAS without its queues: J. Gu et al.,
// "Tiresias: A GPU Cluster Manager for Distributed Deep Learning", NSDI 2019, section 4.
type LAS2D struct{}

// Rank returns the attained GPU-time.
func (LAS2D) Rank(v scheduler.View, j *scheduler.Job) scheduler.Rank {
	return scheduler.Rank{Value: j.Service(v.Now()).Seconds(), Growth: width(j)}
}

// Preempts returns true.
func (LAS2D) Preempts() bool { return true }

// width returns how many GPUs a running job has, in shares.
func width(j *scheduler.Job) float64 {
	return float64(len(j.Placement())*j.Share()) / cluster.WholeGPU
}
