package scheduler

import (
	"cmp"
	"slices"

	"github.com/phos-gpu/phos/cluster"
)

// checked is a policy's placement for n GPUs of a job as the engine keeps it: sorted, its own, and free.
func (e *Engine) checked(j *Job, on cluster.Placement, n int) (cluster.Placement, error) {
	if len(on) != n || n <= 0 {
		return nil, &PlanError{Job: j.ID(), Err: ErrGang}
	}
	on = slices.Clone(on)
	slices.SortFunc(on, func(a, b cluster.GPU) int {
		return cmp.Or(cmp.Compare(a.Node, b.Node), cmp.Compare(a.Index, b.Index))
	})
	for i, gpu := range on {
		err := e.usable(j, gpu)
		if i > 0 && on[i-1] == gpu {
			err = ErrTwice
		}
		if err != nil {
			return nil, &PlanError{Job: j.ID(), GPU: gpu, Err: err}
		}
	}
	return on, nil
}

// usable says why a job cannot have a GPU.
func (e *Engine) usable(j *Job, gpu cluster.GPU) error {
	switch {
	case gpu.Node < 0 || int(gpu.Node) >= len(e.nodes) || gpu.Index < 0 || int(gpu.Index) >= e.nodes[gpu.Node].GPUs:
		return ErrNoSuchGPU
	case e.free.closed[gpu.Node]:
		return ErrClosed
	case !e.free.Suits(j, gpu.Node):
		return ErrUnsuited
	case e.free.Share(gpu) < j.facts.Share:
		return ErrTaken
	}
	return nil
}

// sound says what makes no sense in a job's description.
func sound(f *cluster.Job) bool {
	switch {
	case f.GPUs <= 0, f.Share < 0, f.Share > wholeGPU, f.Share%wholeGPU != 0 && f.GPUs > 1:
		return false
	case f.MaxGPUs != 0 && (f.MinGPUs < 1 || f.MinGPUs > f.MaxGPUs), f.MaxGPUs == 0 && f.MinGPUs != 0:
		return false
	}
	return f.Submit >= 0 && f.Estimate >= 0 && f.GPUMemoryBytes >= 0
}
