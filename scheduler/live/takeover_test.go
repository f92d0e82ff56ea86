package live

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/phos-gpu/phos/scheduler"
	"github.com/phos-gpu/phos/scheduler/admit"
	"github.com/phos-gpu/phos/scheduler/backfill"
	"github.com/phos-gpu/phos/scheduler/cluster"
	"github.com/phos-gpu/phos/scheduler/elastic"
	"github.com/phos-gpu/phos/scheduler/order"
	"github.com/phos-gpu/phos/scheduler/place"
	"github.com/phos-gpu/phos/scheduler/throughput"
	"github.com/phos-gpu/phos/scheduler/victims"
)

const second = time.Second

// future is an engine and the cluster that carries its plans out, in virtual time.
type future struct {
	engine *scheduler.Engine
	now    time.Duration
	coming []cluster.Job // by submission
	nodes  []nodeEvent   // by time
	ends   map[cluster.JobID]runEnd
	plans  []string // those that are not empty
	idle   int      // steps since the last event
}

type nodeEvent struct {
	at time.Duration
	ev scheduler.Event
}

type runEnd struct {
	at  time.Duration
	run int
}

// advance makes the next step, and reports whether there was one.
func (f *future) advance(t *testing.T) bool {
	t.Helper()
	at, any := time.Duration(0), false
	consider := func(next time.Duration) {
		if !any || next < at {
			at, any = next, true
		}
	}
	if len(f.coming) > 0 {
		consider(f.coming[0].Submit)
	}
	if len(f.nodes) > 0 {
		consider(f.nodes[0].at)
	}
	for _, end := range f.ends {
		consider(end.at)
	}
	if wake, wants := f.engine.Wake(); wants && (any || f.idle < 5) {
		consider(wake)
	}
	f.now, f.idle = max(f.now, at), f.idle+1
	if any {
		f.step(t, f.due())
	}
	return any
}

// due returns the events until now.
func (f *future) due() (events []scheduler.Event) {
	for len(f.coming) > 0 && f.coming[0].Submit <= f.now {
		events = append(events, scheduler.Event{Kind: scheduler.Submitted, Facts: &f.coming[0]})
		f.coming = f.coming[1:]
	}
	for id, end := range f.ends {
		if end.at <= f.now {
			events = append(events, scheduler.Event{Kind: scheduler.Finished, Job: id, Run: end.run})
			delete(f.ends, id)
		}
	}
	for len(f.nodes) > 0 && f.nodes[0].at <= f.now {
		events = append(events, f.nodes[0].ev)
		f.nodes = f.nodes[1:]
	}
	return events
}

// lengths are those of the jobs, which their engine does not know.
func length(id cluster.JobID) time.Duration {
	return time.Duration(1+rand.New(rand.NewPCG(uint64(id), 8)).IntN(80)) * second
}

// step makes a step and carries its plan out.
func (f *future) step(t *testing.T, events []scheduler.Event) {
	t.Helper()
	plan, err := f.engine.Step(f.now, events)
	if err != nil {
		t.Fatal(err)
	}
	if len(events) > 0 {
		f.idle = 0
	}
	if len(plan.Stops)+len(plan.Starts) > 0 {
		f.plans = append(f.plans, fmt.Sprintf("at %v: %+v", f.now, plan))
	}
	for _, stop := range plan.Stops {
		delete(f.ends, stop.Job)
	}
	for _, s := range plan.Starts {
		f.ends[s.Job] = runEnd{s.Ready + s.Load + scheduler.Span(length(s.Job)-s.Done, s.Speed), s.Run}
	}
}

// takeOver returns the same cluster with a new engine, which has adopted all jobs by what a store
// has kept of them: JSON.
func (f *future) takeOver(t *testing.T, p scheduler.Policies) *future {
	t.Helper()
	engine, err := scheduler.New(slices.Clone(f.engine.Nodes()), p)
	if err != nil {
		t.Fatal(err)
	}
	next := &future{engine: engine, now: f.now, coming: f.coming, nodes: f.nodes, ends: maps.Clone(f.ends)}
	var events []scheduler.Event
	for _, j := range f.jobs() {
		text, err := json.Marshal(j.State(f.now))
		if err != nil {
			t.Fatal(err)
		}
		var state scheduler.JobState
		if err := json.Unmarshal(text, &state); err != nil {
			t.Fatal(err)
		}
		events = append(events, scheduler.Event{Kind: scheduler.Adopted, State: &state})
	}
	for i := range f.engine.Nodes() {
		node := cluster.NodeID(i)
		for gpu := range int32(f.engine.Nodes()[i].GPUs) {
			if f.engine.Free().Occupied(node)&(1<<gpu) != 0 {
				events = append(events, scheduler.Event{Kind: scheduler.Occupied, Node: node, GPU: gpu})
			}
		}
		if f.engine.Free().Closed(node) {
			events = append(events, scheduler.Event{Kind: scheduler.Cordoned, Node: node})
		}
	}
	next.step(t, events)
	return next
}

// jobs returns all jobs, in no order that says anything.
func (f *future) jobs() []*scheduler.Job {
	jobs := slices.AppendSeq(f.engine.Held(), f.engine.Waiting())
	jobs = slices.AppendSeq(jobs, f.engine.Running())
	rand.New(rand.NewPCG(uint64(f.now), 1)).Shuffle(len(jobs), func(i, k int) { jobs[i], jobs[k] = jobs[k], jobs[i] })
	return jobs
}

// flat is constant costs.
type flat struct{ save, load time.Duration }

func (c flat) Save(*scheduler.Job) time.Duration { return c.save }
func (c flat) Load(j *scheduler.Job, _ cluster.Placement) time.Duration {
	if _, ran := j.FirstStart(); !ran {
		return 0
	}
	return c.load
}
func (flat) Lost(j *scheduler.Job, now time.Duration) time.Duration { return j.Worked(now) / 2 }

// workload returns jobs, and events of nodes.
func workload(seed uint64, exact bool) (jobs []cluster.Job, nodes []nodeEvent) {
	r := rand.New(rand.NewPCG(seed, 2))
	at := time.Duration(0)
	for i := range 60 {
		at += time.Duration(r.IntN(20)) * second
		id := cluster.JobID(100*i + r.IntN(100))
		j := cluster.Job{
			ID: id, Submit: at, Estimate: length(id), GPUs: 1 << r.IntN(3), User: []string{"a/x", "a/y", "b"}[r.IntN(3)],
			Priority: r.IntN(3), GPUType: []string{"", "", "", "B"}[r.IntN(4)],
		}
		if !exact {
			j.Estimate = j.Estimate * time.Duration(1+r.IntN(8)) / 2
		}
		if r.IntN(6) == 0 {
			j.GPUs, j.Share = 1, 250
		}
		jobs = append(jobs, j)
	}
	for i, kind := range []scheduler.Kind{scheduler.Drained, scheduler.Cordoned, scheduler.NodeDown} {
		down := time.Duration(100*i+r.IntN(100)) * second
		node := cluster.NodeID(i)
		nodes = append(nodes, nodeEvent{down, scheduler.Event{Kind: kind, Node: node}},
			nodeEvent{down + 90*second, scheduler.Event{Kind: scheduler.NodeUp, Node: node}})
	}
	for range 10 {
		nodes = append(nodes, nodeEvent{time.Duration(r.IntN(500)) * second, scheduler.Event{
			Kind: scheduler.Occupied + scheduler.Kind(r.IntN(2)), Node: cluster.NodeID(r.IntN(3)), GPU: r.Int32N(4),
		}})
	}
	for gpu := range int32(12) { // in the end, each job can run
		event := scheduler.Event{Kind: scheduler.Vacated, Node: cluster.NodeID(gpu / 4), GPU: gpu % 4}
		nodes = append(nodes, nodeEvent{600 * second, event})
	}
	slices.SortStableFunc(nodes, func(a, b nodeEvent) int { return int(a.at - b.at) })
	return jobs, nodes
}

// setting is policies that are made for each engine.
type setting struct {
	name     string
	inexact  bool // estimates are wrong
	remember bool // the policies remember more than is handed over: plans may differ
	steady   bool // no node changes: the policies have looked at the capacity, and do not look again
	policies func(t *testing.T) scheduler.Policies
}

func settings(t *testing.T) []setting {
	var all []setting
	add := func(s setting) { all = append(all, s) }
	ordered := func(t *testing.T, name string) scheduler.Policies {
		o, err := order.ByName(name, order.Parameters{
			Quotas: map[string]float64{"a": 4, "b": 4}, Limits: []time.Duration{20 * second, 60 * second}, Lease: 15 * second,
			Lengths: []time.Duration{10 * second, 30 * second, 70 * second}, Promote: 3,
		})
		if err != nil {
			t.Fatal(err)
		}
		return scheduler.Policies{Order: o, Place: place.BestFit{}, Preempt: victims.Tail{}, Quantum: 10 * second}
	}
	for _, name := range order.Names() {
		// themis keeps the ranks of waiting jobs until the next multiple of the lease. Under quota, the
		// engine knows which jobs it has preempted twice at this time.
		remember := name == "themis" || name == "quota"
		steady := name == "drf"
		s := setting{name: name, inexact: true, remember: remember, steady: steady}
		s.policies = func(t *testing.T) scheduler.Policies { return ordered(t, name) }
		add(s)
		s.name += ", costs, rounds, caps"
		s.policies = func(t *testing.T) scheduler.Policies {
			p := ordered(t, name)
			p.Costs, p.Round, p.Caps = flat{3 * second, 5 * second}, 7*second, map[string]int{"a": 5, "b": 6}
			return p
		}
		add(s)
	}
	fifo := func(change func(*scheduler.Policies)) func(*testing.T) scheduler.Policies {
		return func(*testing.T) scheduler.Policies {
			p := scheduler.Policies{Order: order.FIFO{}, Place: place.FirstFree{}}
			change(&p)
			return p
		}
	}
	easy := fifo(func(p *scheduler.Policies) { p.Backfill = backfill.NewEASY() })
	conservative := fifo(func(p *scheduler.Policies) { p.Backfill = backfill.NewConservative(0) })
	add(setting{name: "easy", policies: easy})
	add(setting{name: "easy, wrong estimates", inexact: true, remember: true, policies: easy})
	add(setting{name: "conservative", policies: conservative, remember: true})
	load := fifo(func(p *scheduler.Policies) { p.Admit = admit.Load{Threshold: 1.1} })
	tenants := fifo(func(p *scheduler.Policies) { p.Admit, p.Walk = admit.Quota{Part: 0.5}, scheduler.Fill })
	add(setting{name: "load", steady: true, policies: load})
	add(setting{name: "quota of tenants", steady: true, policies: tenants})
	add(setting{name: "aging", policies: func(t *testing.T) scheduler.Policies {
		p := ordered(t, "srtf")
		var err error
		if p.Order, err = order.Aging(p.Order, 100*second); err != nil {
			t.Fatal(err)
		}
		return p
	}})
	for _, name := range elastic.Names() {
		add(setting{name: name, remember: name != "optimus", policies: func(t *testing.T) scheduler.Policies {
			allocator, _, err := elastic.ByName(name, elastic.Parameters{Seed: 1})
			if err != nil {
				t.Fatal(err)
			}
			return scheduler.Policies{
				Order: order.FIFO{}, Place: place.BestFit{}, Allocate: allocator,
				Speeds: throughput.NewSpeeds(throughput.Linear()), Round: 20 * second,
			}
		}})
	}
	return all
}

// TestTakeOver takes the jobs over at random times: the plans of the new engine must be those that
// the old one makes. Where policies remember more, it must only run all jobs to their ends.
func TestTakeOver(t *testing.T) {
	differs := map[string]bool{}
	for _, s := range settings(t) {
		for seed := range uint64(8) {
			jobs, nodes := workload(seed, !s.inexact)
			if s.steady {
				nodes = nil
			}
			engine, err := scheduler.New([]cluster.Node{
				{ID: 0, GPUs: 4}, {ID: 1, GPUs: 4}, {ID: 2, GPUs: 4, GPUType: "B"},
			}, s.policies(t))
			if err != nil {
				t.Fatal(err)
			}
			old := &future{engine: engine, coming: jobs, nodes: nodes, ends: map[cluster.JobID]runEnd{}}
			for range 5 + rand.New(rand.NewPCG(seed, 3)).IntN(100) {
				old.advance(t)
			}
			for old.now%(7*second) == 0 { // not in the instant of a round, which would be decided twice
				old.advance(t)
			}
			next := old.takeOver(t, s.policies(t))
			old.plans = nil
			for old.advance(t) {
			}
			for next.advance(t) {
			}
			if old.engine.Live() != 0 || next.engine.Live() != 0 {
				t.Fatalf("%s, seed %d: %d and %d jobs are left", s.name, seed, old.engine.Live(), next.engine.Live())
			}
			if slices.Equal(old.plans, next.plans) {
				continue
			}
			differs[s.name] = true
			if !s.remember {
				i := 0
				for i < min(len(old.plans), len(next.plans)) && old.plans[i] == next.plans[i] {
					i++
				}
				t.Errorf("%s, seed %d: plan %d of %d is\n%s\nwould have been\n%s", s.name, seed, i, len(next.plans),
					fmt.Sprint(next.plans[i:min(i+1, len(next.plans))]), fmt.Sprint(old.plans[i:min(i+1, len(old.plans))]))
			}
		}
	}
	t.Logf("plans differ under %v", slices.Sorted(maps.Keys(differs)))
}
