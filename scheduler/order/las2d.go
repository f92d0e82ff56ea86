package order

import (
	"github.com/phos-gpu/phos/cluster"
	"github.com/phos-gpu/phos/scheduler"
)

// LAS2D is least attained service in two dimensions, time and GPUs: a job of eight GPUs has had
// eight times as much after a second as a job of one. It is 2D-LAS without its queues: J. Gu et
// al., "Tiresias: A GPU Cluster Manager for Distributed Deep Learning", NSDI 2019, section 4.
type LAS2D struct{}

// Rank is the GPU-time that the job has had.
func (LAS2D) Rank(v scheduler.View, j *scheduler.Job) scheduler.Rank {
	return scheduler.Rank{Value: j.Service(v.Now()).Seconds(), Growth: width(j)}
}

// Preempts is true.
func (LAS2D) Preempts() bool { return true }

// width is how many GPUs a running job has, shares counting as such.
func width(j *scheduler.Job) float64 {
	return float64(len(j.Placement())*j.Share()) / cluster.WholeGPU
}
