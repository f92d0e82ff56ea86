package scheduler

import (
	"errors"
	"iter"
	"maps"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/phos-gpu/phos/scheduler/cluster"
)

// garbage is every policy at once, with random answers. It must not change what it is shown.
type garbage struct {
	r     *rand.Rand
	books int
}

func (g *garbage) odd() bool { return g.r.IntN(8) == 0 }

func (g *garbage) maybePanic() {
	if g.r.IntN(50) == 0 {
		panic("garbage")
	}
}

func (g *garbage) number() float64 {
	odd := []float64{math.NaN(), math.Inf(1), math.Inf(-1), math.MaxFloat64, -math.MaxFloat64, 0}
	if g.odd() {
		return odd[g.r.IntN(len(odd))]
	}
	return float64(g.r.IntN(20) - 10)
}

func (g *garbage) length() time.Duration {
	odd := []time.Duration{-1, math.MaxInt64, math.MinInt64, 0}
	if g.odd() {
		return odd[g.r.IntN(len(odd))]
	}
	return time.Duration(g.r.IntN(20)) * s
}

func (g *garbage) Preempts() bool { return true }

func (g *garbage) Rank(v View, j *Job) Rank {
	g.maybePanic()
	r := Rank{Tier: g.r.IntN(3) - 1, Value: g.number(), Growth: g.number()}
	if g.odd() {
		r.Until = v.Now() + g.length()
	}
	return r
}

func (g *garbage) Admit(View, *Job) bool { g.maybePanic(); return g.r.IntN(3) > 0 }
func (g *garbage) Lane(j *Job) string    { g.maybePanic(); return j.User() }

func (g *garbage) Place(v View, j *Job, n int) (cluster.Placement, bool) {
	g.maybePanic()
	if !g.odd() {
		return anywhere{}.Place(v, j, n)
	}
	on := make(cluster.Placement, g.r.IntN(n+2))
	for i := range on {
		on[i] = cluster.GPU{Node: cluster.NodeID(g.r.IntN(len(v.Nodes())+2) - 1), Index: int32(g.r.IntN(6) - 1)}
	}
	return on, g.r.IntN(4) > 0
}

func (g *garbage) Open(View) Reservations {
	g.maybePanic()
	if g.odd() {
		return nil
	}
	g.books = g.r.IntN(5)
	return g
}

func (g *garbage) Reserve(*Job) bool             { g.maybePanic(); g.books--; return g.books > 0 }
func (g *garbage) MaxRuntime(*Job) time.Duration { g.maybePanic(); return g.length() }
func (g *garbage) ClassLimit(*Job) time.Duration { g.maybePanic(); return g.length() }

func (g *garbage) Choose(v View, _ Demand, candidates iter.Seq[*Job]) []*Job {
	g.maybePanic()
	var some []*Job
	if g.odd() {
		some = append(some, nil)
	}
	for j := range v.Running() {
		if g.odd() {
			some = append(some, j)
		}
	}
	for j := range candidates {
		if g.r.IntN(3) == 0 {
			some = append(some, j, j)
		}
		g.maybePanic()
	}
	return some
}

func (g *garbage) Allocate(v View) []Allocation {
	g.maybePanic()
	some := []Allocation{{GPUs: 1}}
	for j := range v.Waiting() {
		a := Allocation{Job: j, GPUs: g.r.IntN(6) - 1}
		if g.odd() {
			a.GPUType = "B"
		}
		if g.odd() {
			a.On, _ = g.Place(v, j, max(1, a.GPUs))
		}
		some = append(some, a)
	}
	for j := range v.Running() {
		some = append(some, Allocation{Job: j, GPUs: g.r.IntN(6) - 1})
	}
	return some
}

func (g *garbage) Save(*Job) time.Duration                               { g.maybePanic(); return g.length() }
func (g *garbage) Load(*Job, cluster.Placement) time.Duration            { return g.length() }
func (g *garbage) Lost(*Job, time.Duration) time.Duration                { return g.length() }
func (g *garbage) Speed(*Job, cluster.Placement, []cluster.Node) float64 { return g.number() }

// grouping is garbage that ranks groups too.
type grouping struct{ *garbage }

func (g grouping) Group(j *Job) string { g.maybePanic(); return j.User() }
func (g grouping) RankGroup(View, string, Amount) Rank {
	g.maybePanic()
	return Rank{Tier: g.r.IntN(3), Value: g.number()}
}

// policies returns Policies with garbage in some places.
func (g *garbage) policies() Policies {
	p := Policies{
		Order:   byNothing{},
		Place:   anywhere{},
		Walk:    Walk(g.r.IntN(3)),
		Depth:   g.r.IntN(3),
		Retries: g.r.IntN(3),
	}
	orders := []Orderer{g, grouping{g}, byRemaining{}, byService{}, byNothing{}}
	p.Order = orders[g.r.IntN(len(orders))]
	maybe := func(set func()) {
		if g.r.IntN(2) == 0 {
			set()
		}
	}
	maybe(func() { p.Place = g })
	maybe(func() { p.Admit = g })
	maybe(func() { p.Backfill = g })
	maybe(func() { p.Preempt = g })
	maybe(func() { p.Costs = g })
	maybe(func() { p.Speeds = g })
	maybe(func() { p.Caps = map[string]int{"a": g.r.IntN(8), "a/b": g.r.IntN(4), "d": 0} })
	maybe(func() { p.Quantum = time.Duration(g.r.IntN(5)) * s })
	maybe(func() { p.CostShare = g.r.Float64() })
	if g.r.IntN(4) == 0 {
		p.Allocate = g
	}
	if g.r.IntN(4) == 0 {
		p.Round = 3 * s
	}
	return p
}

// history returns random events, most of them possible.
func (g *garbage) history(e *Engine, next *cluster.JobID) []Event {
	var events []Event
	for range g.r.IntN(5) {
		kind := Kind(g.r.IntN(int(Refused) + 2))
		ev := Event{
			Kind: kind,
			Job:  cluster.JobID(g.r.IntN(int(*next) + 1)),
			Node: cluster.NodeID(g.r.IntN(5)),
			Run:  g.r.IntN(3),
			GPU:  int32(g.r.IntN(5)),
		}
		closes := kind == NodeDown || kind == Drained || kind == Cordoned
		if kind == Submitted || g.r.IntN(4) == 0 || closes && g.r.IntN(3) > 0 {
			ev = Event{Kind: Submitted, Facts: g.job(*next, e.now)}
			*next++
		}
		switch ev.Kind {
		case Adopted:
			ev = g.adopted(e, next)
		case Kept, Shrunk:
			ev.On = g.part(e, ev.Job)
		default:
		}
		if kind == NodeUp && g.odd() {
			ev.Machine = &cluster.Node{ID: ev.Node, GPUs: g.r.IntN(5), GPUType: "B"}
		}
		events = append(events, ev)
		if ev.Kind == Refused && g.r.IntN(2) == 0 {
			events = append(events, Event{Kind: Kept, Job: ev.Job})
		}
	}
	g.r.Shuffle(len(events), func(i, k int) { events[i], events[k] = events[k], events[i] })
	return events
}

// part returns some or none of the GPUs that a job has or had, or any.
func (g *garbage) part(e *Engine, id cluster.JobID) (on cluster.Placement) {
	j := e.jobs[id]
	if j == nil || g.odd() {
		return cluster.Placement{{Node: cluster.NodeID(g.r.IntN(6) - 1), Index: int32(g.r.IntN(6) - 1)}}
	}
	had := j.placement
	if j.stopped != nil && len(had) == 0 {
		had = j.stopped.on
	}
	for _, gpu := range had {
		if g.r.IntN(3) > 0 {
			on = append(on, gpu)
		}
	}
	return on
}

// adopted returns a job in any state, possible or not, or one of this engine again.
func (g *garbage) adopted(e *Engine, next *cluster.JobID) Event {
	a := &JobState{Job: *g.job(*next, e.now), Phase: Phase(g.r.IntN(5))}
	*next++
	sum := func() time.Duration { return time.Duration(g.r.IntN(20)-1) * s }
	a.Since, a.WaitingSince, a.First = min(e.now, sum()), min(e.now, sum()), min(e.now, sum())
	a.WorksFrom, a.SavedAt, a.Attained, a.Service, a.Done = sum(), sum(), sum(), sum(), sum()
	a.Runs, a.Preemptions, a.Failures, a.Run, a.LastRun = g.r.IntN(3), g.r.IntN(3), g.r.IntN(3), g.r.IntN(4), g.r.IntN(4)
	if g.odd() {
		a.Speed = g.number()
	}
	if a.Phase == Running || g.odd() {
		for range a.GPUs + g.r.IntN(2) {
			a.On = append(a.On, cluster.GPU{Node: cluster.NodeID(g.r.IntN(4)), Index: int32(g.r.IntN(4))})
		}
		slices.SortFunc(a.On, byNumber)
		a.On = slices.Compact(a.On)
	}
	if g.odd() && len(e.jobs) > 0 {
		a.ID = slices.Min(slices.Collect(maps.Keys(e.jobs)))
	}
	return Event{Kind: Adopted, State: a}
}

func (g *garbage) job(id cluster.JobID, now time.Duration) *cluster.Job {
	j := &cluster.Job{
		ID: id, Submit: now, Estimate: time.Duration(g.r.IntN(30)) * s, GPUs: 1 + g.r.IntN(4),
		User:    []string{"", "a", "a/b", "a/c", "d"}[g.r.IntN(5)],
		GPUType: []string{"", "", "A", "B"}[g.r.IntN(4)], GPUMemoryBytes: int64(g.r.IntN(3)),
	}
	if g.odd() {
		j.GPUs, j.Share = 1, 1+g.r.IntN(1000)
	} else if g.odd() {
		j.MinGPUs, j.MaxGPUs = 1, 4
	}
	if g.odd() {
		j.GPUs = g.r.IntN(40) - 20
	}
	return j
}

// FuzzPolicies lets policies answer garbage to random events, and audits the state after each step.
func FuzzPolicies(f *testing.F) {
	for seed := range uint64(200) {
		f.Add(seed, uint8(60))
	}
	f.Fuzz(func(t *testing.T, seed uint64, steps uint8) {
		g := &garbage{r: rand.New(rand.NewPCG(seed, 1))}
		nodes := machines(4, 4)
		nodes[1].GPUType, nodes[2].GPUMemoryBytes, nodes[3].GPUs = "B", 1, 2
		e, err := New(nodes, g.policies())
		if err != nil {
			t.Fatal(err)
		}
		next := cluster.JobID(0)
		w := witness{}
		e.Observe(w)
		for now := time.Duration(0); steps > 0; steps-- {
			before := running(e)
			events := g.history(e, &next)
			p, err := e.Step(now, events)
			explained(t, err)
			audit(t, e)
			reported(w, before, events, refusals(err))
			follows(t, e, before, p)
			if g.r.IntN(20) == 0 {
				forked(t, e, g)
				takenOver(t, e)
			}
			now += time.Duration(g.r.IntN(3)) * s / 2
			if at, ok := e.Wake(); ok && g.r.IntN(2) == 0 {
				now = max(now, min(at, now+10*s))
			}
		}
	})
}

// forked audits a copy of an engine.
func forked(t testing.TB, e *Engine, g *garbage) {
	t.Helper()
	f, err := Fork(e, g.policies())
	if err != nil {
		t.Fatal(err)
	}
	f.Observe(maps.Clone(witnessOf(e)))
	f.policies.Caps = nil // they may be others, and exceeded
	audit(t, f)
	for i := range e.nodes {
		if id := cluster.NodeID(i); f.free.unused(id) != e.free.unused(id) || f.free.states[i] != e.free.states[i] {
			t.Fatalf("node %d: %b, %v, in the fork %b, %v", i, e.free.unused(id), e.free.State(id), f.free.unused(id),
				f.free.State(id))
		}
	}
}

// takenOver lets a new engine adopt all jobs: it must then know the same of them.
func takenOver(t testing.TB, e *Engine) {
	t.Helper()
	n, err := New(e.nodes, Policies{Order: byService{}, Place: anywhere{}, Round: 1000 * time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	n.Observe(witness{})
	n.round = e.now + 1000*time.Hour // no decisions
	var events []Event
	for _, j := range e.jobs {
		state := j.State(e.now)
		events = append(events, Event{Kind: Adopted, State: &state})
	}
	for i, state := range e.free.states {
		for gpu := range int32(e.nodes[i].GPUs) {
			if e.free.Occupied(cluster.NodeID(i))&(1<<gpu) != 0 {
				events = append(events, Event{Kind: Occupied, Node: cluster.NodeID(i), GPU: gpu})
			}
		}
		if state != NodeOpen {
			events = append(events, Event{Kind: Cordoned, Node: cluster.NodeID(i)})
		}
	}
	n.policies.Admit = closedDoor{}
	if _, err := n.Step(e.now, events); err != nil {
		t.Fatal(err)
	}
	audit(t, n)
	for id, j := range e.jobs {
		if got, want := n.jobs[id].State(e.now), j.State(e.now); !reflect.DeepEqual(got, want) {
			t.Fatalf("job %d was taken over as\n%+v, is\n%+v", id, got, want)
		}
		if got, want := n.jobs[id].Done(e.now), j.Done(e.now); got != want {
			t.Fatalf("job %d has %v done, want %v", id, got, want)
		}
	}
}

// closedDoor admits no job.
type closedDoor struct{}

func (closedDoor) Admit(View, *Job) bool { return false }

// explained fails for errors of types that a caller does not expect.
func explained(t testing.TB, err error) {
	t.Helper()
	if err == nil {
		return
	}
	for _, err := range err.(interface{ Unwrap() []error }).Unwrap() {
		var policy *PolicyError
		var event *EventError
		if !errors.As(err, &policy) && !errors.As(err, &event) {
			t.Fatalf("%v is a %T", err, err)
		}
	}
}

// refusals returns the indices of the events that were refused.
func refusals(err error) map[int]bool {
	refused := map[int]bool{}
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		for _, err := range joined.Unwrap() {
			var event *EventError
			if errors.As(err, &event) {
				refused[event.At] = true
			}
		}
	}
	return refused
}

// reported applies events to the jobs that an executor runs.
func reported(w witness, runs map[cluster.JobID]int, events []Event, refused map[int]bool) {
	for i, ev := range events {
		if refused[i] {
			continue
		}
		switch run, runsNow := runs[ev.Job]; ev.Kind {
		case Failed, Refused:
			if runsNow && (ev.Run == 0 || ev.Run == run) {
				delete(runs, ev.Job)
			}
		case Kept:
			runs[ev.Job] = w[ev.Job]
		case Adopted:
			if ev.State.Phase == Running {
				runs[ev.State.ID] = w[ev.State.ID]
			}
		case Finished, Withdrawn:
			delete(runs, ev.Job)
		default:
		}
	}
}

func running(e *Engine) map[cluster.JobID]int {
	runs := map[cluster.JobID]int{}
	for j := range e.Running() {
		runs[j.ID()] = j.run
	}
	return runs
}

// follows fails if an executor that follows the plan would not run the jobs that the engine
// considers running.
func follows(t testing.TB, e *Engine, runs map[cluster.JobID]int, p Plan) {
	t.Helper()
	for _, stop := range p.Stops {
		if stop.How != Withdraw || e.jobs[stop.Job] == nil { // else another job has been adopted by its number
			delete(runs, stop.Job)
		}
	}
	for _, start := range p.Starts {
		if _, ok := runs[start.Job]; ok {
			t.Fatalf("job %d is started while it runs", start.Job)
		}
		runs[start.Job] = start.Run
	}
	for j := range e.Running() {
		if runs[j.ID()] != j.run {
			t.Fatalf("run %d of job %d is not in the plan", j.run, j.ID())
		}
	}
}
