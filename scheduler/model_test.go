package scheduler

import (
	"cmp"
	"fmt"
	"iter"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/phos-gpu/phos/scheduler/cluster"
)

// model is a scheduler in the simplest way: it has no sums and no indices, and computes everything
// from what happened to each job. It shares nothing with the engine but the types of events.
type model struct {
	nodes    []cluster.Node
	closed   map[cluster.NodeID]bool
	foreign  map[cluster.GPU]bool
	jobs     map[cluster.JobID]*modelJob
	strict   bool
	preempts bool
	retries  int
	now      time.Duration
	plan     Plan
}

// modelJob is a job and what happened to it.
type modelJob struct {
	cluster.Job
	running, preemptible bool
	on                   cluster.Placement
	since, waitingSince  time.Duration
	runs, run, lastRun   int
	preemptions, fails   int
	earlier, now         []stretch // of earlier runs, and of the current one

	// stopped is the job as it was before the last stop.
	stopped *modelJob
}

// stretch is a time in which a job worked on so many GPUs. An open one ends now.
type stretch struct {
	from, to time.Duration
	gpus     int
	lost     bool // its work was lost
}

const open = time.Duration(-1)

// sums returns the time, GPU-time and work of a job until now.
func (j *modelJob) sums(now time.Duration) (attained, service, done time.Duration) {
	for _, s := range slices.Concat(j.earlier, j.now) {
		to := s.to
		if to == open {
			to = max(now, s.from)
		}
		attained += to - s.from
		service += (to - s.from) * time.Duration(s.gpus)
		if !s.lost {
			done += (to - s.from) * time.Duration(s.gpus) / time.Duration(j.GPUs)
		}
	}
	return attained, service, done
}

func (j *modelJob) clone() *modelJob {
	c := *j
	c.earlier, c.now = slices.Clone(j.earlier), slices.Clone(j.now)
	return &c
}

// holder returns the job that has a GPU, or nil.
func (m *model) holder(gpu cluster.GPU) *modelJob {
	for _, j := range m.jobs {
		if j.running && slices.Contains(j.on, gpu) {
			return j
		}
	}
	return nil
}

func (m *model) exists(gpu cluster.GPU) bool {
	return int(gpu.Node) < len(m.nodes) && int(gpu.Index) < m.nodes[gpu.Node].GPUs
}

// usable reports whether a job could get a GPU if no other job had it.
func (m *model) usable(j *modelJob, gpu cluster.GPU) bool {
	return !m.closed[gpu.Node] && !m.foreign[gpu] && (j.GPUType == "" || j.GPUType == m.nodes[gpu.Node].GPUType)
}

// apply applies an event, and reports whether it can have happened.
func (m *model) apply(ev *Event) bool {
	j := m.jobs[ev.Job]
	switch ev.Kind {
	case Submitted:
		m.jobs[ev.Facts.ID] = &modelJob{Job: *ev.Facts, waitingSince: m.now}
		return true
	case Adopted:
		return m.adopt(ev.State)
	case NodeDown, NodeUp, Drained, Cordoned, Occupied, Vacated:
		return m.node(ev)
	default:
	}
	if j == nil {
		return false
	}
	current := j.running && (ev.Run == 0 || ev.Run == j.run)
	switch {
	case ev.Kind == Finished:
		delete(m.jobs, ev.Job)
	case ev.Kind == Withdrawn:
		delete(m.jobs, ev.Job)
		m.plan.Stops = append(m.plan.Stops, Stop{ev.Job, Withdraw})
	case ev.Kind == Kept:
		return m.keep(j, ev.On)
	case !current:
	case ev.Kind == Failed:
		if j.fails++; j.fails > m.retries {
			return m.apply(&Event{Kind: Withdrawn, Job: ev.Job})
		}
		m.stop(j, true)
		j.stopped = nil
	case ev.Kind == Refused:
		was := j.stopped
		j.running, j.on, j.now, j.runs, j.stopped = false, nil, nil, j.runs-1, was
	case ev.Kind == Working:
		j.now = []stretch{{m.now, open, len(j.on), false}}
	case ev.Kind == Shrunk:
		return m.shrink(j, ev.On)
	}
	return true
}

func (m *model) adopt(s *JobState) bool {
	if m.jobs[s.ID] != nil || s.Phase == Running && !m.free(s.On) {
		return false
	}
	j := &modelJob{
		Job: s.Job, running: s.Phase == Running, on: s.On, since: s.Since, waitingSince: s.WaitingSince,
		runs: s.Runs, run: s.Run, lastRun: max(s.Run, s.LastRun), preemptions: s.Preemptions, fails: s.Failures,
	}
	// Any stretches do whose sums are those of the state.
	j.earlier = []stretch{{0, s.Service / time.Duration(max(1, s.GPUs)), s.GPUs, true}}
	j.earlier = append(j.earlier, stretch{0, s.Attained - j.earlier[0].to, 0, true})
	if s.Done > 0 {
		j.earlier = append(j.earlier, stretch{0, s.Done, s.GPUs, false}, stretch{s.Done, 0, s.GPUs, true})
	}
	if j.running {
		j.now = []stretch{{s.WorksFrom, open, len(j.on), false}}
	}
	m.jobs[s.ID] = j
	return true
}

// free reports whether no job has any of some GPUs, and all exist.
func (m *model) free(on cluster.Placement) bool {
	for _, gpu := range on {
		if !m.exists(gpu) || m.holder(gpu) != nil {
			return false
		}
	}
	return len(on) > 0
}

func (m *model) node(ev *Event) bool {
	gpu := cluster.GPU{Node: ev.Node, Index: ev.GPU}
	switch ev.Kind {
	case NodeUp:
		was := m.closed[ev.Node]
		delete(m.closed, ev.Node)
		return was
	case Occupied:
		if m.exists(gpu) {
			m.foreign[gpu] = true
		}
		return m.exists(gpu)
	case Vacated:
		delete(m.foreign, gpu)
		return m.exists(gpu)
	default:
	}
	m.closed[ev.Node] = true
	for _, j := range m.byNumber() {
		on := j.running && slices.ContainsFunc(j.on, func(gpu cluster.GPU) bool { return gpu.Node == ev.Node })
		if on && ev.Kind != Cordoned {
			how := Checkpoint
			if ev.Kind == NodeDown {
				how = Kill
			}
			m.plan.Stops = append(m.plan.Stops, Stop{j.ID, how})
			m.stop(j, how == Kill)
		}
	}
	if ev.Kind == NodeDown {
		for gpu := range m.foreign {
			if gpu.Node == ev.Node {
				delete(m.foreign, gpu)
			}
		}
	}
	return true
}

// stop takes a running job's GPUs away.
func (m *model) stop(j *modelJob, lost bool) {
	was := j.clone()
	for i := range j.now {
		if j.now[i].to == open {
			j.now[i].to = max(m.now, j.now[i].from)
		}
		j.now[i].lost = lost
	}
	j.earlier = append(j.earlier, j.now...)
	j.running, j.on, j.now, j.waitingSince, j.stopped = false, nil, nil, m.now, was
}

func (m *model) keep(j *modelJob, on cluster.Placement) bool {
	was := j.stopped
	if j.running || was == nil {
		return false
	}
	if len(on) == 0 {
		on = was.on
	}
	if !m.free(on) {
		return false
	}
	kept := was.clone()
	kept.lastRun, kept.fails, kept.stopped, kept.preemptible = j.lastRun, j.fails, nil, false
	m.jobs[j.ID] = kept
	if len(on) < len(kept.on) {
		m.shrink(kept, on)
	}
	return true
}

func (m *model) shrink(j *modelJob, on cluster.Placement) bool {
	for _, gpu := range on {
		if !slices.Contains(j.on, gpu) {
			return false
		}
	}
	if len(on) == 0 {
		return false
	}
	j.on = on
	last := &j.now[len(j.now)-1]
	if last.from >= m.now {
		last.gpus = len(on)
		return true
	}
	last.to = m.now
	j.now = append(j.now, stretch{m.now, open, len(on), false})
	return true
}

func (m *model) byNumber() []*modelJob {
	var all []*modelJob
	for _, j := range m.jobs {
		all = append(all, j)
	}
	slices.SortFunc(all, func(a, b *modelJob) int { return cmp.Compare(a.ID, b.ID) })
	return all
}

// before reports whether a job is before another one.
func (m *model) before(a, b *modelJob) bool {
	priority := 0
	if m.preempts {
		priority = cmp.Compare(b.Priority, a.Priority)
	}
	return cmp.Or(priority, cmp.Compare(a.Submit, b.Submit), cmp.Compare(a.ID, b.ID)) < 0
}

// decide starts all waiting jobs that can start, in order.
func (m *model) decide() {
	for _, j := range m.jobs {
		j.preemptible = j.running && !j.Fixed && j.now[0].from <= m.now
	}
	tried := map[cluster.JobID]bool{}
	for {
		var first *modelJob
		for _, j := range m.byNumber() {
			if !j.running && !tried[j.ID] && (first == nil || m.before(j, first)) {
				first = j
			}
		}
		if first == nil {
			return
		}
		tried[first.ID] = true
		if !m.start(first) && m.strict {
			return
		}
	}
}

// start starts a job on the first free GPUs, or those of the last job behind it.
func (m *model) start(j *modelJob) bool {
	var on cluster.Placement
	for _, node := range m.nodes {
		for i := range node.GPUs {
			gpu := cluster.GPU{Node: node.ID, Index: int32(i)}
			if len(on) < j.GPUs && m.usable(j, gpu) && m.holder(gpu) == nil {
				on = append(on, gpu)
			}
		}
	}
	if len(on) < j.GPUs {
		victim := m.victim(j)
		if victim == nil {
			return false
		}
		on = victim.on
		m.stop(victim, false)
		victim.preemptions++
		m.plan.Stops = append(m.plan.Stops, Stop{victim.ID, Checkpoint})
	}
	j.runs++
	j.lastRun++
	j.running, j.run, j.on, j.since, j.now = true, j.lastRun, on, m.now, []stretch{{m.now, open, len(on), false}}
	m.plan.Starts = append(m.plan.Starts, Start{Job: j.ID, Run: j.run, On: on})
	return true
}

// victim returns the last job behind one that needs a GPU, or nil.
func (m *model) victim(j *modelJob) (last *modelJob) {
	for _, v := range m.byNumber() {
		behind := m.preempts && v.running && v.preemptible && v.Priority < j.Priority
		if behind && m.usable(j, v.on[0]) && (last == nil || m.before(last, v)) {
			last = v
		}
	}
	return last
}

// lowest takes the free GPUs of the lowest numbers.
type lowest struct{}

func (lowest) Place(v View, j *Job, n int) (on cluster.Placement, ok bool) {
	for _, node := range v.Nodes() {
		for i := range node.GPUs {
			gpu := cluster.GPU{Node: node.ID, Index: int32(i)}
			if len(on) < n && v.Free().Suits(j, node.ID) && v.Free().Share(gpu) == cluster.WholeGPU {
				on = append(on, gpu)
			}
		}
	}
	return on, len(on) == n
}

// worst takes the last candidate.
type worst struct{}

func (worst) Choose(_ View, _ Demand, candidates iter.Seq[*Job]) []*Job {
	for v := range candidates {
		return []*Job{v}
	}
	return nil
}

// TestAgainstModel lets an engine and the model decide the same random histories, with all kinds of
// events. Their plans must be equal, and what they know of each job and GPU.
func TestAgainstModel(t *testing.T) {
	happened := map[Kind]int{}
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 7))
		nodes := machines(3, 4)
		nodes[1].GPUType, nodes[2].GPUs = "B", 2
		m := &model{
			nodes: nodes, closed: map[cluster.NodeID]bool{}, foreign: map[cluster.GPU]bool{},
			jobs: map[cluster.JobID]*modelJob{}, strict: seed%3 == 1, preempts: seed%3 == 2, retries: 2,
		}
		p := Policies{Order: byNothing{}, Place: lowest{}, Walk: Fill, Retries: 2}
		if m.strict {
			p.Walk = Strict
		}
		if m.preempts {
			p.Order, p.Preempt = byPriority{}, worst{}
		}
		e, err := New(nodes, p)
		if err != nil {
			t.Fatal(err)
		}
		e.Observe(witness{})
		for step := range 150 {
			h := history{r: r, model: m}
			events := h.events(cluster.JobID(10 * step))
			m.now += time.Duration(r.IntN(3)) * 4 * s
			e2e(t, e, m, events, fmt.Sprintf("seed %d, step %d, at %v", seed, step, m.now))
			for i := range events {
				happened[events[i].Kind]++
			}
		}
	}
	for kind := Submitted; kind <= Refused; kind++ {
		if happened[kind] < 100 {
			t.Errorf("%v has happened %d times", kind, happened[kind])
		}
	}
}

// e2e makes a step of both, and compares them.
func e2e(t *testing.T, e *Engine, m *model, events []Event, where string) {
	t.Helper()
	m.plan = Plan{}
	refused := map[int]bool{}
	for _, i := range inOrder(m, events) {
		refused[i] = !m.apply(&events[i])
	}
	m.decide()
	plan, err := e.Step(m.now, events)
	got := refusals(err)
	for i := range events {
		if got[i] != refused[i] {
			t.Fatalf("%s: %+v is refused: %v, want %v; %v", where, events[i], got[i], refused[i], err)
		}
	}
	for i := range plan.Starts {
		s := &plan.Starts[i]
		plan.Starts[i] = Start{Job: s.Job, Run: s.Run, On: s.On}
	}
	byJob := func(a, b Stop) int { return cmp.Or(cmp.Compare(a.Job, b.Job), cmp.Compare(a.How, b.How)) }
	slices.SortFunc(plan.Stops, byJob)
	slices.SortFunc(m.plan.Stops, byJob)
	if fmt.Sprint(plan) != fmt.Sprint(m.plan) {
		t.Fatalf("%s:\n%+v\nthe plan is %v\nwant        %v", where, events, plan, m.plan)
	}
	for _, want := range m.byNumber() {
		sameJob(t, e.Job(want.ID), want, m.now, where)
	}
	if e.Live() != len(m.jobs) {
		t.Fatalf("%s: %d jobs, want %d", where, e.Live(), len(m.jobs))
	}
	for _, node := range m.nodes {
		for i := range node.GPUs {
			gpu := cluster.GPU{Node: node.ID, Index: int32(i)}
			free := m.holder(gpu) == nil && !m.closed[node.ID] && !m.foreign[gpu]
			if got := e.Free().Share(gpu) == cluster.WholeGPU; got != free {
				t.Fatalf("%s: GPU %v is free: %v, want %v", where, gpu, got, free)
			}
		}
	}
	audit(t, e)
}

// inOrder returns the indices of events in the order in which they take effect.
func inOrder(m *model, events []Event) []int {
	type place struct{ category, submit, number, at int }
	var places []place
	for i := range events {
		ev := &events[i]
		p := place{category: 1, number: int(ev.Job), at: i}
		switch ev.Kind {
		case Submitted:
			p.category, p.number = 0, int(ev.Facts.ID)
		case Adopted:
			p.category, p.submit, p.number = 2, int(ev.State.Submit), int(ev.State.ID)
		case Kept:
			if p.category = 2; m.jobs[ev.Job] != nil {
				p.submit = int(m.jobs[ev.Job].Submit)
			}
		case NodeDown, NodeUp, Drained, Cordoned, Occupied, Vacated:
			p.category, p.number = 3, int(ev.Node)
		default:
		}
		places = append(places, p)
	}
	slices.SortFunc(places, func(a, b place) int {
		return cmp.Or(a.category-b.category, a.submit-b.submit, a.number-b.number, a.at-b.at)
	})
	order := make([]int, len(places))
	for i := range places {
		order[i] = places[i].at
	}
	return order
}

func sameJob(t *testing.T, j *Job, want *modelJob, now time.Duration, where string) {
	t.Helper()
	if j == nil {
		t.Fatalf("%s: job %d is missing", where, want.ID)
	}
	attained, service, done := want.sums(now)
	if !want.running {
		want.run = j.run // which number it has is of no importance
	}
	got := fmt.Sprint(j.phase == Running, j.placement, j.Attained(now), j.Service(now), j.Done(now), j.waitingSince,
		j.runs, j.run, j.lastRun, j.preemptions, j.failures)
	expect := fmt.Sprint(want.running, want.on, attained, service, done, want.waitingSince, want.runs, want.run,
		want.lastRun, want.preemptions, want.fails)
	if got != expect || want.running && j.since != want.since {
		t.Fatalf("%s: job %d is\n%v\n%v", where, want.ID, got, expect)
	}
}

// history makes events up.
type history struct {
	r     *rand.Rand
	model *model
}

// events returns up to three events of different jobs and nodes.
func (h *history) events(next cluster.JobID) []Event {
	var events []Event
	seen := map[cluster.JobID]bool{}
	for i := range h.r.IntN(4) {
		ev := h.event(next + cluster.JobID(i))
		switch {
		case ev.Facts != nil || ev.State != nil || ev.category() == ofNodes:
		case seen[ev.Job]:
			continue
		}
		seen[ev.Job] = true
		events = append(events, ev)
	}
	return events
}

func (h *history) event(next cluster.JobID) Event {
	all := h.model.byNumber()
	kind := Kind(h.r.IntN(int(Refused) + 1))
	node := cluster.NodeID(h.r.IntN(3))
	switch kind {
	case NodeDown, Drained, Cordoned:
		if len(h.model.closed) > 0 && h.r.IntN(4) > 0 {
			return Event{Kind: NodeUp, Node: node}
		}
	case Adopted:
		return Event{Kind: Adopted, State: h.state(next)}
	case Submitted:
		facts := h.job(next)
		return Event{Kind: Submitted, Facts: &facts}
	default:
	}
	ev := Event{Kind: kind, Node: node, GPU: int32(h.r.IntN(4))}
	if ev.category() == ofNodes {
		return ev
	}
	if len(all) == 0 || len(all) < 5 && h.r.IntN(2) == 0 {
		facts := h.job(next)
		return Event{Kind: Submitted, Facts: &facts}
	}
	j := all[h.r.IntN(len(all))]
	for range 4 { // most events are those of jobs to which they can happen
		if j.running == (kind != Kept) {
			break
		}
		j = all[h.r.IntN(len(all))]
	}
	ev.Node, ev.GPU, ev.Job = 0, 0, j.ID
	had := j.on
	if kind == Kept && j.stopped != nil {
		had = j.stopped.on
	}
	if kind == Shrunk || kind == Kept && h.r.IntN(4) == 0 {
		for _, gpu := range had {
			if h.r.IntN(3) > 0 {
				ev.On = append(ev.On, gpu)
			}
		}
	}
	if kind != Kept && h.r.IntN(2) == 0 {
		ev.Run = j.run
	}
	return ev
}

// job returns a job whose times on any GPUs are whole numbers.
func (h *history) job(id cluster.JobID) cluster.Job {
	j := cluster.Job{
		ID: id, Submit: h.model.now, Estimate: time.Duration(1+h.r.IntN(9)) * s, GPUs: 1 << h.r.IntN(3),
		Share: cluster.WholeGPU, Priority: h.r.IntN(3), Fixed: h.r.IntN(4) == 0, GPUType: []string{"", "", "A", "B"}[h.r.IntN(4)],
	}
	if h.model.preempts {
		j.GPUs = 1
	}
	return j
}

// state returns a job that was there before, waiting or running anywhere.
func (h *history) state(id cluster.JobID) *JobState {
	a := &JobState{Job: h.job(id), Phase: Waiting, Runs: 1, Run: 1, LastRun: 1 + h.r.IntN(2), Preemptions: h.r.IntN(2)}
	a.Submit = time.Duration(h.r.IntN(1+int(h.model.now/s))) * s
	a.WaitingSince, a.Since, a.WorksFrom = a.Submit, a.Submit, a.Submit
	a.Service = time.Duration(h.r.IntN(4)*a.GPUs) * 4 * s
	a.Attained = a.Service/time.Duration(a.GPUs) + time.Duration(h.r.IntN(3))*s
	a.Done = time.Duration(h.r.IntN(5)) * s
	if h.r.IntN(3) > 0 {
		a.Phase, a.Speed = Running, 1
		first := cluster.GPU{Node: cluster.NodeID(h.r.IntN(3)), Index: int32(h.r.IntN(2))}
		for i := range int32(a.GPUs) {
			a.On = append(a.On, cluster.GPU{Node: first.Node, Index: first.Index + i})
		}
		if len(a.On) > 1 && h.r.IntN(2) == 0 {
			a.On, a.Speed = a.On[:len(a.On)/2], 0
		}
	}
	return a
}
