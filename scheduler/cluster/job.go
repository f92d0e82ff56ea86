package cluster

import "time"

// JobID is a job's number. It breaks ties: the lower number is first.
type JobID int64

// WholeGPU is the share, in thousandths, of a job that does not share its GPUs.
const WholeGPU = 1000

// Job is a job's description. Times count from the beginning of the trace or of the scheduler's
// life.
type Job struct {
	ID JobID

	// Submit is when the job arrives.
	Submit time.Duration

	// GPUs is how many it needs, all at once.
	GPUs int

	// Share is how much of its GPU it needs, in thousandths: WholeGPU, or less if the job has one GPU
	// and shares it.
	Share int

	// Fixed means that the job keeps its GPUs until it ends: it could neither be saved nor start
	// again, so no policy may stop it.
	Fixed bool

	// Name is the owner's name for it. Traces with names instead of numbers keep them here.
	Name string

	// Length is how long it runs on the GPUs that it asks for. Only a simulation knows it.
	Length time.Duration

	// Estimate is the owner's estimate of Length. Policies use this one.
	Estimate time.Duration

	// MinGPUs and MaxGPUs bound what an elastic policy may allocate. Both are 0 if the job runs only
	// on exactly GPUs.
	MinGPUs, MaxGPUs int

	// GPUType is the only model that it can run on; empty means any.
	GPUType string

	// GPUMemoryBytes is what it uses on each GPU; 0 if unknown.
	GPUMemoryBytes int64

	// Constraint is what else decides where it can run, in any form: a Placer may have different
	// answers for jobs whose constraints differ.
	Constraint string

	// User is the owner: a person, a tenant or a virtual cluster. "a/b" is team b of organisation a.
	User string

	// Priority is higher for more urgent jobs. 0 is normal.
	Priority int

	// Model names what it trains, as "resnet50": the key of tables of throughput and of checkpoint
	// costs.
	Model string
}
