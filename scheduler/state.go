package scheduler

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
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

// Lister is a View that lists all of its jobs, so that Fork accepts it.
type Lister interface {
	View
	Jobs() []*Job
}

// Fork returns an engine that continues from a view's state under other policies, so that a policy
// can look ahead. Nothing that happens to it affects the view. It knows of jobs only what policies
// know. An overdue job is estimated to run for a tenth longer than it has, so that it ends.
func Fork(v View, p Policies) (*Engine, error) {
	var jobs []*Job
	ready := make([][]time.Duration, len(v.Nodes()))
	switch v := v.(type) {
	case *Engine:
		jobs = slices.Collect(maps.Values(v.jobs))
		copy(ready, v.ready)
	case Lister:
		jobs = slices.Clone(v.Jobs())
	default:
		return nil, fmt.Errorf("fork of a %T, which does not list its jobs", v)
	}
	e, err := New(slices.Clone(v.Nodes()), p)
	if err != nil {
		return nil, err
	}
	e.now, e.seconds = v.Now(), v.Now().Seconds()
	for node := range e.nodes {
		if id := cluster.NodeID(node); v.Free().Closed(id) {
			e.free.setClosed(id, true)
			e.capacity.add(capacity(&e.nodes[node]), -1)
		}
		e.ready[node] = slices.Clone(ready[node])
	}
	slices.SortFunc(jobs, func(a, b *Job) int {
		return cmp.Or(cmp.Compare(a.facts.Submit, b.facts.Submit), cmp.Compare(a.facts.ID, b.facts.ID))
	})
	e.copyJobs(v, jobs)
	return e, nil
}

// copyJobs adds copies of jobs in their states. It asks for ranks after all of them are present.
func (e *Engine) copyJobs(v View, jobs []*Job) {
	var inside []*Job
	for _, j := range jobs {
		c := &Job{
			facts: j.facts, attained: j.attained, service: j.service, done: j.done, first: j.first, waitingSince: j.waitingSince,
			runs: j.runs, preemptions: j.preemptions, failures: j.failures, savedAt: j.savedAt, allocatedType: j.allocatedType,
		}
		c.facts.Estimate = j.forkEstimate(e.now)
		c.account = e.account(c.facts.User)
		c.gpus = c.account.initialGPUs(&c.facts)
		c.shape = e.shapeOf(c)
		e.jobs[c.ID()] = c
		e.enqueueHeld(c)
		if j.phase != Held {
			c.tenantQueue.held = c.tenantQueue.held[:len(c.tenantQueue.held)-1]
			e.copyState(c, j)
			inside = append(inside, c)
		}
	}
	for name, a := range e.accounts {
		a.service, a.at = v.User(name).Service, e.now
	}
	for _, c := range inside {
		e.rerank(c)
		e.regroup(c)
	}
}

// copyState makes a copy wait or run like its original.
func (e *Engine) copyState(c, j *Job) {
	c.phase = j.phase
	e.demand += c.GPUs()
	c.account.addDemand(c.GPUs())
	c.group = e.groupOf(c)
	if c.phase == Waiting {
		e.waiting++
		c.account.countWaiting(+1)
		return
	}
	c.placement, c.since, c.from, c.speed = slices.Clone(j.placement), j.since, j.from, j.speed
	e.free.allocate(c.placement, c.facts.Share)
	c.account.countRun(c, +1, e.now)
	e.trackRun(c)
}

// forkEstimate returns a job's estimate, or a tenth more than its completed work if it is overdue.
func (j *Job) forkEstimate(now time.Duration) time.Duration {
	if done := j.Done(now); done >= j.facts.Estimate {
		return done + max(time.Second, done/10)
	}
	return j.facts.Estimate
}

// DueInFork returns when a running job ends in a Fork without preemption.
func (j *Job) DueInFork(now time.Duration) time.Duration {
	return j.from + Span(j.forkEstimate(now)-j.done, j.speed)
}
