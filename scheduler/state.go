package scheduler

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/phos-gpu/phos/scheduler/cluster"
)

// JobState is what an Engine knows of a job: Job.State. Adopted gives it to another Engine, which
// then decides in the same way; NewJob makes a Job of it, outside of an Engine.
type JobState struct {
	cluster.Job
	Phase Phase

	// On is where a running job runs, since Since. Its work resumed, or will, at WorksFrom; 0 means
	// at Since. Of a waiting job, On are the GPUs on which it is still being saved, until SavedAt.
	On               cluster.Placement
	Since, WorksFrom time.Duration
	SavedAt          time.Duration

	// AllocatedType is the type of GPU that an Allocator has chosen for the run, if it did.
	AllocatedType string

	// Speed is how fast it runs; 0 means 1.
	Speed float64

	// Attained, Service and Done are the sums over earlier runs: time, GPU-time and work. If a running
	// job has had other GPUs in this run, they are such that the sums are right with the current run,
	// and may be negative.
	Attained, Service, Done time.Duration

	// WaitingSince is when a waiting job lost its GPUs or arrived. For a running job it is when it
	// began to wait for the GPUs that it has.
	WaitingSince time.Duration

	// First is when the job first got GPUs, if it had any Runs.
	First time.Duration

	// Runs is how many times it has got GPUs. A Refused run does not count.
	Runs, Preemptions, Failures int

	// Run is the number of the current run, or of the last one, and LastRun the highest number that a
	// run has had: the next one gets one more. Those that are less than Runs count as Runs.
	Run, LastRun int
}

// NewJob returns a job in a given state. A Share of 0 means whole GPUs.
func NewJob(s JobState) *Job {
	j := &Job{
		facts: s.Job, gpus: s.GPUs, phase: s.Phase, placement: s.On, since: s.Since, from: s.Since, speed: s.Speed,
		attained: s.Attained, service: s.Service, done: s.Done, waitingSince: s.WaitingSince, first: s.First,
		runs: s.Runs, preemptions: s.Preemptions, failures: s.Failures, savedAt: s.SavedAt, allocatedType: s.AllocatedType,
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
	if s.WorksFrom != 0 {
		j.from = s.WorksFrom
	}
	j.run = s.Run
	if j.run == 0 {
		j.run = j.runs
	}
	j.lastRun = max(s.LastRun, j.run, j.runs)
	return j
}

// State returns what another Engine must know to take the job over at a time.
func (j *Job) State(now time.Duration) JobState {
	s := JobState{
		Job: j.facts, Phase: j.phase, On: slices.Clone(j.placement), SavedAt: j.savedAt, AllocatedType: j.allocatedType,
		Attained: j.attained, Service: j.service, Done: j.done, WaitingSince: j.waitingSince,
		Runs: j.runs, Preemptions: j.preemptions, Failures: j.failures, Run: j.run, LastRun: j.lastRun,
	}
	if j.runs > 0 {
		s.First = j.first
	}
	switch {
	case j.phase == Running:
		s.Since, s.WorksFrom, s.Speed = j.since, j.from, j.speed
	case j.savedAt > now && j.stopped != nil:
		s.On = slices.Clone(j.stopped.on)
	}
	return s
}

// valid reports whether a job can be in this state at a time.
func (s *JobState) valid(now time.Duration) bool {
	for _, at := range []time.Duration{s.Since, s.WaitingSince, s.First} {
		if at < 0 || at > now {
			return false
		}
	}
	running := s.Phase == Running
	for i, sum := range []time.Duration{s.Service, s.Done, s.Attained, s.WorksFrom, s.SavedAt} {
		if sum < 0 && (i > 1 || !running) || sum < -math.MaxInt64/4 || sum > math.MaxInt64/4 {
			return false
		}
	}
	if min(s.Runs, s.Run, s.LastRun, s.Preemptions, s.Failures) < 0 || max(s.Runs, s.Run, s.LastRun) >= math.MaxInt32 {
		return false
	}
	return validJob(&s.Job) && s.Speed >= 0 && s.Speed <= fastest && s.Phase < Ended &&
		(s.Phase != Held || len(s.On) == 0)
}

// adopt adds a job in its state.
func (e *Engine) adopt(s *JobState) error {
	if s == nil || !s.valid(e.now) {
		return ErrBadFacts
	}
	if e.jobs[s.ID] != nil {
		return ErrDuplicate
	}
	j := NewJob(*s)
	e.prepare(j)
	if j.phase == Running {
		on, err := e.free.checkHeld(j, j.placement)
		if err != nil {
			return err
		}
		j.placement = on
	}
	e.jobs[j.ID()] = j
	outcome{e, j}.begin(s)
	return nil
}

// begin makes an adopted job wait or run.
func (o outcome) begin(s *JobState) {
	j := o.job
	for a := j.account; a != nil; a = a.parent {
		a.service += j.Service(o.now).Seconds()
	}
	if j.phase == Held {
		o.enqueueHeld(j)
		j.tenantQueue.sortLast()
		return
	}
	j.tenantQueue = o.tenantQueueOf(j)
	o.join(j)
	if j.phase == Running {
		if s.Speed == 0 {
			j.speed = o.speedOn(j.placement)
		}
		o.runOn()
		return
	}
	if j.runs > 0 {
		j.stopped = &stoppedRun{
			run: j.run, on: slices.Clone(j.placement), since: j.waitingSince, from: j.waitingSince,
			attained: j.attained, service: j.service, done: j.done, waitingSince: j.waitingSince,
		}
	}
	o.markStillBusy()
	o.wait(j)
}

// markStillBusy notes the GPUs on which an adopted job is still being saved.
func (o outcome) markStillBusy() {
	j := o.job
	on := slices.DeleteFunc(slices.Clone(j.placement), func(gpu cluster.GPU) bool { return !o.free.exists(gpu) })
	if j.savedAt > o.now {
		o.markCheckpointing(on, j.savedAt)
	}
	j.placement, j.speed, j.allocatedType = nil, 0, ""
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
		f.setState(node, NodeLost)
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
		id := cluster.NodeID(node)
		e.free.setForeign(id, v.Free().Occupied(id))
		if v.Free().Closed(id) {
			e.closeNode(id, v.Free().State(id))
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
			run: j.run, lastRun: j.lastRun, shrunk: j.shrunk,
		}
		c.facts.Estimate = j.forkEstimate(e.now)
		c.account = e.account(c.facts.User)
		c.gpus = e.policies.initialGPUs(&c.facts)
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
