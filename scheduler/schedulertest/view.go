// Package schedulertest makes up Views, so that policies can be tested without an engine.
//
// NewView takes nodes and jobs in any state; the View answers policies as an Engine in that state
// would, and scheduler.Fork accepts it. Only tests import this package; the tests of the policies
// (scheduler/order, scheduler/elastic and others) exercise it. Tested by scheduler/order.
package schedulertest

import (
	"cmp"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/phos-gpu/phos/scheduler"
	"github.com/phos-gpu/phos/scheduler/cluster"
)

// Job is a job of a View: its description and its state.
type Job = scheduler.JobState

// View is a scheduler.View with given contents.
type View struct {
	now    time.Duration
	nodes  []cluster.Node
	free   *scheduler.Free
	closed []cluster.NodeID
	jobs   []*scheduler.Job
	caps   map[string]int
}

// NewView returns a View of the given nodes and jobs at a time. Waiting and held jobs are queued in
// the order of the arguments. Each node's number must be its index, and running jobs must not
// overlap. A Share of 0 means whole GPUs.
func NewView(now time.Duration, nodes []cluster.Node, jobs ...Job) *View {
	v := &View{now: now, nodes: nodes}
	for _, state := range jobs {
		v.jobs = append(v.jobs, scheduler.NewJob(state))
	}
	v.free = scheduler.NewFree(nodes, v.in(scheduler.Running))
	return v
}

// Limit sets a user's cap in GPUs.
func (v *View) Limit(user string, gpus int) {
	if v.caps == nil {
		v.caps = map[string]int{}
	}
	v.caps[user] = gpus
}

// Close makes a node unavailable, as if it were down or draining.
func (v *View) Close(node cluster.NodeID) {
	v.closed = append(v.closed, node)
	v.free = scheduler.NewFree(v.nodes, v.in(scheduler.Running), v.closed...)
}

// Now returns the view's time.
func (v *View) Now() time.Duration { return v.now }

// Nodes returns the view's nodes.
func (v *View) Nodes() []cluster.Node { return v.nodes }

// Free returns what the running jobs leave.
func (v *View) Free() *scheduler.Free { return v.free }

// Jobs returns all jobs, in the order in which they were given.
func (v *View) Jobs() []*scheduler.Job { return v.jobs }

// Job returns a job by its number, or nil.
func (v *View) Job(id cluster.JobID) *scheduler.Job {
	for _, j := range v.jobs {
		if j.ID() == id {
			return j
		}
	}
	return nil
}

// Held returns the jobs that wait for admission.
func (v *View) Held() []*scheduler.Job { return v.in(scheduler.Held) }

// Waiting returns the waiting jobs.
func (v *View) Waiting() iter.Seq[*scheduler.Job] { return slices.Values(v.in(scheduler.Waiting)) }

// Running returns the running jobs, by expected end.
func (v *View) Running() iter.Seq[*scheduler.Job] {
	jobs := v.in(scheduler.Running)
	slices.SortFunc(jobs, func(a, b *scheduler.Job) int {
		return cmp.Or(
			cmp.Compare(a.Due(), b.Due()),
			cmp.Compare(a.Submitted(), b.Submitted()),
			cmp.Compare(a.ID(), b.ID()),
		)
	})
	return slices.Values(jobs)
}

// in returns the jobs of a phase.
func (v *View) in(phase scheduler.Phase) []*scheduler.Job {
	var jobs []*scheduler.Job
	for _, j := range v.jobs {
		if j.Phase() == phase {
			jobs = append(jobs, j)
		}
	}
	return jobs
}

// Capacity returns the sum over all nodes, closed ones included.
func (v *View) Capacity() scheduler.Amount {
	var all scheduler.Amount
	for i := range v.nodes {
		n := &v.nodes[i]
		all.GPUs += float64(n.GPUs)
		all.MemoryBytes += int64(n.GPUs) * n.GPUMemoryBytes
	}
	return all
}

// User returns the usage of a user and of all users below it.
func (v *View) User(name string) scheduler.Usage {
	u := scheduler.Usage{Cap: scheduler.Uncapped}
	if limit, ok := v.caps[name]; ok {
		u.Cap = limit
	}
	for _, j := range v.jobs {
		if user := j.User(); user != name && !strings.HasPrefix(user, name+"/") {
			continue
		}
		u.Service += j.Service(v.now).Seconds()
		switch j.Phase() {
		case scheduler.Running:
			gpus := len(j.Placement())
			u.Running++
			u.GPUs += float64(gpus*j.Share()) / cluster.WholeGPU
			u.MemoryBytes += int64(gpus) * j.GPUMemoryBytes()
			u.Demand += j.GPUs()
		case scheduler.Waiting:
			u.Waiting++
			u.Demand += j.GPUs()
		default:
		}
	}
	return u
}

// Demand returns how many GPUs the waiting and the running jobs ask for.
func (v *View) Demand() int {
	demand := 0
	for _, j := range v.jobs {
		if j.Phase() == scheduler.Waiting || j.Phase() == scheduler.Running {
			demand += j.GPUs()
		}
	}
	return demand
}
