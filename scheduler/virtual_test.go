package scheduler

import (
	"container/heap"
	"iter"
	"slices"
	"testing"
	"time"

	"github.com/phos-gpu/phos/scheduler/cluster"
)

// virtual plays a trace against an engine: a minimal executor with a clock that jumps.
type virtual struct {
	t        testing.TB
	e        *Engine
	jobs     []cluster.Job // by submission
	lengths  map[cluster.JobID]time.Duration
	runs     map[cluster.JobID]int
	ends     endings
	extra    map[time.Duration][]Event
	finished map[cluster.JobID]time.Duration
	first    map[cluster.JobID]time.Duration
	starts   int
	stops    int
	steps    int
	idle     int                             // steps since the last start
	after    func(now time.Duration, p Plan) // of each step
	faulty   bool                            // errors are expected
	eager    bool                            // the engine looks at all waiting jobs at every relevant time
}

type ending struct {
	at  time.Duration
	job cluster.JobID
	run int
}

type endings []ending

func (h endings) Len() int { return len(h) }
func (h endings) Less(i, k int) bool {
	return h[i].at < h[k].at || h[i].at == h[k].at && h[i].job < h[k].job
}
func (h endings) Swap(i, k int) { h[i], h[k] = h[k], h[i] }
func (h *endings) Push(x any)   { *h = append(*h, x.(ending)) }
func (h *endings) Pop() any {
	x := (*h)[len(*h)-1]
	*h = (*h)[:len(*h)-1]
	return x
}

func prepare(t testing.TB, nodes []cluster.Node, p Policies, jobs []cluster.Job) *virtual {
	t.Helper()
	e, err := New(nodes, p)
	if err != nil {
		t.Fatal(err)
	}
	v := &virtual{
		t: t, e: e, jobs: slices.Clone(jobs), lengths: map[cluster.JobID]time.Duration{}, runs: map[cluster.JobID]int{},
		extra: map[time.Duration][]Event{}, finished: map[cluster.JobID]time.Duration{},
		first: map[cluster.JobID]time.Duration{},
	}
	slices.SortStableFunc(v.jobs, func(a, b cluster.Job) int { return int(a.Submit - b.Submit) })
	for _, j := range jobs {
		v.lengths[j.ID] = j.Length
	}
	return v
}

func (v *virtual) run() {
	v.t.Helper()
	for {
		now, ok := v.next()
		if !ok {
			return
		}
		v.steps++
		p, err := v.e.Step(now, v.events(now))
		if err != nil && !v.faulty {
			v.t.Fatalf("at %v: %v", now, err)
		}
		v.apply(now, p)
		if v.after != nil {
			v.after(now, p)
		}
	}
}

func (v *virtual) next() (at time.Duration, ok bool) {
	consider := func(t time.Duration) {
		if !ok || t < at {
			at, ok = t, true
		}
	}
	if len(v.jobs) > 0 {
		consider(v.jobs[0].Submit)
	}
	for len(v.ends) > 0 && v.runs[v.ends[0].job] != v.ends[0].run {
		heap.Pop(&v.ends)
	}
	if len(v.ends) > 0 {
		consider(v.ends[0].at)
	}
	for t := range v.extra {
		consider(t)
	}
	if t, wants := v.e.Wake(); wants && (ok || v.idle < 100) {
		consider(t)
	}
	if v.eager {
		v.e.exhausted = false
		v.e.crossings(consider)
	}
	return at, ok
}

func (v *virtual) events(now time.Duration) []Event {
	var events []Event
	for len(v.jobs) > 0 && v.jobs[0].Submit == now {
		events = append(events, Event{Kind: Submitted, Facts: &v.jobs[0]})
		v.jobs = v.jobs[1:]
	}
	for len(v.ends) > 0 && v.ends[0].at == now {
		if end := heap.Pop(&v.ends).(ending); v.runs[end.job] == end.run {
			events = append(events, Event{Kind: Finished, Job: end.job, Run: end.run})
			v.finished[end.job] = now
			delete(v.runs, end.job)
		}
	}
	events = append(events, v.extra[now]...)
	delete(v.extra, now)
	return events
}

func (v *virtual) apply(now time.Duration, p Plan) {
	for _, s := range p.Stops {
		v.stops++
		delete(v.runs, s.Job)
	}
	v.idle++
	for _, s := range p.Starts {
		v.idle = 0
		v.starts++
		if _, ok := v.first[s.Job]; !ok {
			v.first[s.Job] = now
		}
		v.runs[s.Job] = s.Run
		heap.Push(&v.ends, ending{s.Ready + s.Load + Span(v.lengths[s.Job]-s.Done, s.Speed), s.Job, s.Run})
	}
}

// The simplest policies.

type byNothing struct{}

func (byNothing) Rank(View, *Job) Rank { return Rank{} }

// byService is LAS, in GPU-seconds or in time.
type byService struct{ perGPU bool }

func (o byService) Preempts() bool { return true }
func (o byService) Rank(v View, j *Job) Rank {
	if o.perGPU {
		return Rank{Value: j.Service(v.Now()).Seconds(), Growth: float64(j.GPUs()*j.Share()) / 1000}
	}
	return Rank{Value: j.Attained(v.Now()).Seconds(), Growth: 1}
}

// byRemaining is SRTF.
type byRemaining struct{}

func (byRemaining) Preempts() bool { return true }
func (byRemaining) Rank(v View, j *Job) Rank {
	return Rank{Value: j.Remaining(v.Now()).Seconds(), Growth: -1}
}

type byPriority struct{}

func (byPriority) Preempts() bool           { return true }
func (byPriority) Rank(_ View, j *Job) Rank { return Rank{Tier: -j.Priority()} }

// anywhere takes whole GPUs, from the node that has just enough, or from the fullest nodes.
type anywhere struct{}

func (anywhere) Place(v View, j *Job, n int) (cluster.Placement, bool) {
	free := v.Free()
	if j.Share() < cluster.WholeGPU {
		gpu, ok := free.FirstShare(j)
		return cluster.Placement{gpu}, ok
	}
	if n > free.WholeFor(j) {
		return nil, false
	}
	for have := n; have <= free.Largest(j); have++ {
		if node, ok := free.Next(j, 0, have, have); ok {
			return free.Pick(nil, node, n), true
		}
	}
	var on cluster.Placement
	for have := free.Largest(j); len(on) < n; have-- {
		for node, ok := free.Next(j, 0, have, have); ok && len(on) < n; node, ok = free.Next(j, node+1, have, have) {
			on = free.Pick(on, node, min(have, n-len(on)))
		}
	}
	return on, true
}

// enough takes the last candidates until there are enough GPUs.
type enough struct{}

func (enough) Choose(_ View, need Demand, candidates iter.Seq[*Job]) []*Job {
	var victims []*Job
	have := 0
	for v := range candidates {
		victims = append(victims, v)
		if have += len(v.Placement()); have >= need.GPUs {
			break
		}
	}
	return victims
}

// machines returns equal nodes.
func machines(nodes, gpus int) []cluster.Node {
	all := make([]cluster.Node, nodes)
	for i := range all {
		all[i] = cluster.Node{ID: cluster.NodeID(i), GPUs: gpus, GPUType: "A"}
	}
	return all
}
