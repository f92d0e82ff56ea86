package scheduler

import "github.com/phos-gpu/phos/cluster"

// Amount is so much of a cluster.
type Amount struct {
	GPUs        float64 // shares of a GPU count as such
	MemoryBytes int64   // on GPUs; of jobs, what their owners say
}

func (a *Amount) add(b Amount, sign int) {
	a.GPUs += float64(sign) * b.GPUs
	a.MemoryBytes += int64(sign) * b.MemoryBytes
}

// capacity is what a node has.
func capacity(node *cluster.Node) Amount {
	return Amount{float64(node.GPUs), int64(node.GPUs) * node.GPUMemoryBytes}
}

// holds is what a job has.
func (j *Job) holds() Amount { return j.amount(len(j.placement)) }

// amount is what so many GPUs come to.
func (j *Job) amount(gpus int) Amount {
	return Amount{float64(gpus*j.facts.Share) / cluster.WholeGPU, int64(gpus) * j.facts.GPUMemoryBytes}
}
