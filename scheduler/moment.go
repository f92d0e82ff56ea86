package scheduler

import (
	"cmp"
	"errors"
	"iter"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/phos-gpu/phos/cluster"
)

// Moment is a View of a made-up moment. Policies are tested with it, without an engine around them.
type Moment struct {
	now   time.Duration
	nodes []cluster.Node
	free  *Free
	jobs  []*Job
	caps  map[string]int
}

// Made is a job of a Moment: what its owner said, and what has become of it so far.
type Made struct {
	cluster.Job
	Phase Phase

	// On is where a running job runs, since Since; it loaded nothing.
	On    cluster.Placement
	Since time.Duration

	// Speed is how fast it runs; 0 stands for 1.
	Speed float64

	// Attained, Service and Done are what earlier runs came to: time, GPU-time and work.
	Attained, Service, Done time.Duration

	// WaitingSince is when a waiting job lost its GPUs or arrived; of a running one, when it began to
	// wait for those that it has.
	WaitingSince time.Duration

	// First is when it first got GPUs, if it had any Runs.
	First time.Duration

	Runs, Preemptions int
}

// Trial makes a moment up. Waiting and held jobs stand in their queues in the order in which they
// are given. The nodes' numbers must be their indices, and running jobs must not overlap; a Share
// of 0 stands for whole GPUs.
func Trial(now time.Duration, nodes []cluster.Node, jobs ...Made) *Moment {
	m := &Moment{now: now, nodes: nodes, free: newFree(nodes)}
	for _, made := range jobs {
		j := made.job()
		if j.phase == Running {
			m.free.take(j.placement, j.facts.Share)
			m.free.expect(j)
		}
		m.jobs = append(m.jobs, j)
	}
	return m
}

// Limit lets a user hold so many GPUs at most.
func (m *Moment) Limit(user string, most int) {
	if m.caps == nil {
		m.caps = map[string]int{}
	}
	m.caps[user] = most
}

// Close makes a node unavailable, as one that is down or draining.
func (m *Moment) Close(node cluster.NodeID) { m.free.close(node, true) }

func (m *Made) job() *Job {
	j := &Job{
		facts: m.Job, gpus: m.GPUs, phase: m.Phase, placement: m.On, since: m.Since, from: m.Since, speed: m.Speed, attained: m.Attained,
		service: m.Service, done: m.Done, waitingSince: m.WaitingSince, first: m.First, runs: m.Runs, preemptions: m.Preemptions,
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

// Now is the time that the moment was made for.
func (m *Moment) Now() time.Duration { return m.now }

// Nodes are the moment's nodes.
func (m *Moment) Nodes() []cluster.Node { return m.nodes }

// Free is what the running jobs leave.
func (m *Moment) Free() *Free { return m.free }

// Job finds a job by its number, or nil.
func (m *Moment) Job(id cluster.JobID) *Job {
	for _, j := range m.jobs {
		if j.ID() == id {
			return j
		}
	}
	return nil
}

// Held are the jobs that wait for admission.
func (m *Moment) Held() []*Job { return m.in(Held) }

// Waiting are the waiting jobs.
func (m *Moment) Waiting() iter.Seq[*Job] { return slices.Values(m.in(Waiting)) }

// Running are the running jobs; the one that is expected to end first comes first.
func (m *Moment) Running() iter.Seq[*Job] {
	jobs := m.in(Running)
	slices.SortFunc(jobs, sooner)
	return slices.Values(jobs)
}

func (m *Moment) in(phase Phase) []*Job {
	var jobs []*Job
	for _, j := range m.jobs {
		if j.phase == phase {
			jobs = append(jobs, j)
		}
	}
	return jobs
}

// Capacity is what all the nodes have.
func (m *Moment) Capacity() Amount {
	var all Amount
	for _, node := range m.nodes {
		all.add(capacity(&node), +1)
	}
	return all
}

// User counts what a user has, and all below him.
func (m *Moment) User(name string) Usage {
	u := Usage{Cap: Uncapped}
	if most, capped := m.caps[name]; capped {
		u.Cap = most
	}
	for _, j := range m.jobs {
		if user := j.User(); user != name && !strings.HasPrefix(user, name+"/") {
			continue
		}
		u.Service += j.Service(m.now).Seconds()
		switch j.phase {
		case Running:
			u.Running++
			u.Amount.add(j.holds(), +1)
			u.Demand += j.GPUs()
		case Waiting:
			u.Waiting++
			u.Demand += j.GPUs()
		default:
		}
	}
	return u
}

// Demand is what the waiting and the running jobs ask for.
func (m *Moment) Demand() int {
	demand := 0
	for _, j := range m.jobs {
		if j.phase == Waiting || j.phase == Running {
			demand += j.GPUs()
		}
	}
	return demand
}

// Fork is an engine that goes on from a moment under other policies, so that a policy can look
// ahead: nothing that happens to it touches the moment. It knows of jobs what policies know. One
// that is overdue is given a tenth more than what it has done, so that it ends some day.
func Fork(v View, p Policies) (*Engine, error) {
	var jobs []*Job
	ready := make([][]time.Duration, len(v.Nodes()))
	switch v := v.(type) {
	case *Engine:
		jobs = slices.Collect(maps.Values(v.jobs))
		copy(ready, v.ready)
	case *Moment:
		jobs = slices.Clone(v.jobs)
	default:
		return nil, errors.New("a fork of a view that is neither an engine nor a moment")
	}
	e, err := New(slices.Clone(v.Nodes()), p)
	if err != nil {
		return nil, err
	}
	e.now, e.seconds = v.Now(), v.Now().Seconds()
	for node := range e.nodes {
		if id := cluster.NodeID(node); v.Free().Closed(id) {
			e.free.close(id, true)
			e.capacity.add(capacity(&e.nodes[node]), -1)
		}
		e.ready[node] = slices.Clone(ready[node])
	}
	slices.SortFunc(jobs, func(a, b *Job) int {
		return cmp.Or(cmp.Compare(a.facts.Submit, b.facts.Submit), cmp.Compare(a.facts.ID, b.facts.ID))
	})
	e.adopt(v, jobs)
	return e, nil
}

// adopt takes jobs over as they are. Ranks are asked for once all of them are there.
func (e *Engine) adopt(v View, jobs []*Job) {
	var inside []*Job
	for _, j := range jobs {
		c := &Job{
			facts: j.facts, attained: j.attained, service: j.service, done: j.done, first: j.first, waitingSince: j.waitingSince,
			runs: j.runs, preemptions: j.preemptions, failures: j.failures, saved: j.saved, only: j.only,
		}
		c.facts.Estimate = j.outlasting(e.now)
		c.account = e.account(c.facts.User)
		c.gpus = c.account.modest(&c.facts)
		c.shape = e.shapeOf(c)
		e.jobs[c.ID()] = c
		e.hold(c)
		if j.phase != Held {
			c.lane.held = c.lane.held[:len(c.lane.held)-1]
			e.settle(c, j)
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

// settle makes a copy wait or run like the job that it was made of.
func (e *Engine) settle(c, j *Job) {
	c.phase = j.phase
	e.demand += c.GPUs()
	c.account.ask(c.GPUs())
	c.group = e.groupOf(c)
	if c.phase == Waiting {
		e.waiting++
		c.account.wait(+1)
		return
	}
	c.placement, c.since, c.from, c.speed = slices.Clone(j.placement), j.since, j.from, j.speed
	e.free.take(c.placement, c.facts.Share)
	c.account.hold(c, +1, e.now)
	e.follow(c)
}

// outlasting is a job's estimate, or a tenth more than what it has done if that is as much.
func (j *Job) outlasting(now time.Duration) time.Duration {
	if done := j.Done(now); done >= j.facts.Estimate {
		return done + max(time.Second, done/10)
	}
	return j.facts.Estimate
}

// Outlasts is when a running job ends in a Fork where nobody stops it.
func (j *Job) Outlasts(now time.Duration) time.Duration {
	return j.from + Span(j.outlasting(now)-j.done, j.speed)
}
