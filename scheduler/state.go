package scheduler

import (
	"time"

	"github.com/phos-gpu/phos/cluster"
)

// JobState is all that policies can know of a job. NewJob makes a Job of it, outside of an Engine.
type JobState struct {
	cluster.Job
	Phase Phase

	// On is where a running job runs, since Since. It spent no time on loading.
	On    cluster.Placement
	Since time.Duration

	// Speed is how fast it runs; 0 means 1.
	Speed float64

	// Attained, Service and Done are the sums over earlier runs: time, GPU-time and work.
	Attained, Service, Done time.Duration

	// WaitingSince is when a waiting job lost its GPUs or arrived. For a running job it is when it
	// began to wait for the GPUs that it has.
	WaitingSince time.Duration

	// First is when the job first got GPUs, if it had any Runs.
	First time.Duration

	Runs, Preemptions int
}

// NewJob returns a job in a given state. A Share of 0 means whole GPUs.
func NewJob(s JobState) *Job {
	j := &Job{
		facts: s.Job, gpus: s.GPUs, phase: s.Phase, placement: s.On, since: s.Since, from: s.Since, speed: s.Speed,
		attained: s.Attained, service: s.Service, done: s.Done, waitingSince: s.WaitingSince, first: s.First,
		runs: s.Runs, preemptions: s.Preemptions,
	}
	if j.facts.Share == 0 {
		j.facts.Share = cluster.WholeGPU
	}
	if j.speed == 0 {
		j.speed = 1
	}
	if j.phase == Running {
		j.runs = max(1, j.runs)
	}
	return j
}

// NewFree returns what running jobs leave free of nodes, without the closed ones. Each node's
// number must be its index, and the jobs must not overlap.
func NewFree(nodes []cluster.Node, running []*Job, closed ...cluster.NodeID) *Free {
	f := newFree(nodes)
	for _, j := range running {
		f.allocate(j.placement, j.facts.Share)
		f.expect(j)
	}
	for _, node := range closed {
		f.setClosed(node, true)
	}
	return f
}
