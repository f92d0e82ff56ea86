package cluster

import "time"

// JobID is a job's number. Where all else is equal, the smaller number goes first.
type JobID int64

// WholeGPU is the share of a job that wants its GPUs for itself, in thousandths.
const WholeGPU = 1000

// Job is what somebody wants to run. Times count from the beginning of the trace or of the
// scheduler's life.
type Job struct {
	ID JobID

	// Name is what its owner calls it; a trace that has names in place of numbers keeps them here.
	Name string

	// Submit is when it arrived.
	Submit time.Duration

	// Length is how long it runs on the GPUs that it asks for. Nobody but a simulation knows it.
	Length time.Duration

	// Estimate is how long its owner says that it will run. Policies that need a length take this one.
	Estimate time.Duration

	// GPUs is how many it needs, all at once.
	GPUs int

	// Share is how much of its GPU it needs, in thousandths: WholeGPU, or less where the job has one
	// GPU and shares it.
	Share int

	// MinGPUs and MaxGPUs bound what an elastic policy may give it; both 0 where the job can only run
	// on GPUs many.
	MinGPUs, MaxGPUs int

	// GPUType is the one model that it can run on; empty means any.
	GPUType string

	// GPUMemoryBytes is what it holds on each GPU; 0 where nobody said.
	GPUMemoryBytes int64

	// User owns it: a person, a tenant or a virtual cluster. "a/b" is team b of organisation a.
	User string

	// Priority: more goes first. 0 is ordinary.
	Priority int

	// Model names what it computes, as "resnet50": the key of tables of throughput and of checkpoint
	// costs.
	Model string
}
