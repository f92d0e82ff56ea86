package scheduler

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/phos-gpu/phos/scheduler/cluster"
)

// flat is constant costs.
type flat struct{ save, load, selfSave time.Duration }

func (c flat) Save(*Job) time.Duration { return c.save }
func (c flat) Load(j *Job, _ cluster.Placement) time.Duration {
	if j.runs == 0 {
		return 0
	}
	return c.load
}

func (c flat) Lost(j *Job, now time.Duration) time.Duration {
	if c.selfSave == 0 {
		return j.progress(now)
	}
	return j.progress(now) % c.selfSave
}

// TestCosts computes by hand the effect of saving, loading and lost work.
func TestCosts(t *testing.T) {
	urgent := cluster.Job{ID: 1, Submit: 10 * s, Length: 5 * s, GPUs: 1, Priority: 1}
	preempt := Policies{Order: byPriority{}, Preempt: enough{}, Costs: flat{save: 2 * s, load: 3 * s}}
	minimum := preempt
	minimum.CostShare = 0.1 // a run of less than 50 s is too short
	tests := []struct {
		name   string
		p      Policies
		gpus   int
		jobs   []cluster.Job
		events map[time.Duration][]Event
		ends   []time.Duration
	}{
		// Job 0 works until 10 and is saved until 12; job 1 works from 12 to 17; job 0 loads until 20,
		// and has 10 s left.
		{"preempted", preempt, 1, []cluster.Job{task(0, 0, 20*s, 1), urgent}, nil, []time.Duration{30 * s, 17 * s}},
		{"not worth it", minimum, 1, []cluster.Job{task(0, 0, 20*s, 1), urgent}, nil, []time.Duration{20 * s, 25 * s}},
		{"just worth it", minimum, 1, []cluster.Job{task(0, 0, 60*s, 1), urgent}, nil, []time.Duration{70 * s, 57 * s}},
		// Saved until 12, free at once elsewhere: the other GPU need not wait for the first.
		{
			"moved",
			Policies{Order: byNothing{}, Costs: flat{save: 2 * s, load: 3 * s}},
			1,
			[]cluster.Job{task(0, 0, 20*s, 1)},
			map[time.Duration][]Event{10 * s: {{Kind: Drained, Node: 0}}},
			[]time.Duration{25 * s},
		},
		{
			"node lost",
			Policies{Order: byNothing{}, Costs: flat{load: 3 * s, selfSave: 4 * s}},
			1,
			[]cluster.Job{task(0, 0, 20*s, 1)},
			map[time.Duration][]Event{10 * s: {{Kind: NodeDown, Node: 0}}},
			[]time.Duration{25 * s},
		},
		{
			"node lost, nothing saved",
			Policies{Order: byNothing{}},
			1,
			[]cluster.Job{task(0, 0, 20*s, 1)},
			map[time.Duration][]Event{10 * s: {{Kind: NodeDown, Node: 0}}},
			[]time.Duration{30 * s},
		},
		{
			"all nodes lost, one comes back",
			Policies{Order: byNothing{}},
			1,
			[]cluster.Job{task(0, 0, 20*s, 1)},
			map[time.Duration][]Event{
				10 * s: {{Kind: NodeDown, Node: 0}, {Kind: NodeDown, Node: 1}},
				15 * s: {{Kind: NodeUp, Node: 1}},
			},
			[]time.Duration{35 * s},
		},
		{
			"a new node",
			Policies{Order: byNothing{}},
			1,
			[]cluster.Job{task(0, 0, 20*s, 2), task(1, 1*s, 5*s, 1)},
			map[time.Duration][]Event{3 * s: {{Kind: NodeUp, Node: 2, Machine: &cluster.Node{ID: 2, GPUs: 1}}}},
			[]time.Duration{20 * s, 8 * s},
		},
		{
			"it worked later than expected", preempt, 1,
			[]cluster.Job{task(0, 0, 20*s, 1)},
			map[time.Duration][]Event{5 * s: {{Kind: Working, Job: 0, Run: 1}}},
			[]time.Duration{20 * s},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tt.p.Place = anywhere{}
			nodes := machines(2, tt.gpus)
			if tt.p.Preempt != nil {
				nodes = nodes[:1]
			}
			v := prepare(t, nodes, tt.p, tt.jobs)
			v.extra = tt.events
			if v.extra == nil {
				v.extra = map[time.Duration][]Event{}
			}
			v.after = func(time.Duration, Plan) { audit(t, v.e) }
			v.run()
			for id, want := range tt.ends {
				if got := v.finished[cluster.JobID(id)]; got != want {
					t.Errorf("job %d ended at %v, want %v", id, got, want)
				}
			}
		})
	}
}

// TestFailures lets a job fail: it is started again up to Retries times, then withdrawn.
func TestFailures(t *testing.T) {
	e, err := New(machines(1, 1), Policies{Order: byNothing{}, Place: anywhere{}, Retries: 2})
	if err != nil {
		t.Fatal(err)
	}
	j := task(7, 0, 10*s, 1)
	p := step(t, e, 0, Event{Kind: Submitted, Facts: &j})
	for run := 1; run <= 3; run++ {
		if len(p.Starts) != 1 || p.Starts[0].Run != run || p.Starts[0].Done != 0 {
			t.Fatalf("run %d: %+v", run, p)
		}
		late := step(t, e, time.Duration(run)*s, Event{Kind: Failed, Job: 7, Run: run - 1})
		if run > 1 && len(late.Starts)+len(late.Stops) > 0 {
			t.Fatalf("an event of an earlier run counts: %+v", late)
		}
		if run == 1 {
			p = late // run 0 means any run
			continue
		}
		p = step(t, e, time.Duration(run)*s, Event{Kind: Failed, Job: 7, Run: run})
	}
	if e.Job(7) != nil || len(p.Starts) > 0 || !slices.Equal(p.Stops, []Stop{{Job: 7, How: Withdraw}}) {
		t.Fatalf("after the last attempt: %+v", p)
	}
	audit(t, e)
}

func step(t *testing.T, e *Engine, now time.Duration, events ...Event) Plan {
	t.Helper()
	p, err := e.Step(now, events)
	if err != nil {
		t.Fatal(err)
	}
	audit(t, e)
	return p
}

// fixed allocates the GPUs of a table, by time.
type fixed map[time.Duration]map[cluster.JobID]Allocation

func (f fixed) Allocate(v View) []Allocation {
	var all []Allocation
	give := func(j *Job) {
		if a, ok := f[v.Now()][j.ID()]; ok {
			a.Job = j
			all = append(all, a)
		}
	}
	for j := range v.Running() {
		give(j)
	}
	for j := range v.Waiting() {
		give(j)
	}
	return all
}

// TestElastic grows, shrinks and moves a job by a stop and a start in one plan, and leaves jobs
// with unchanged GPUs alone.
func TestElastic(t *testing.T) {
	nodes := machines(2, 4)
	nodes[1].GPUType = "B"
	want := fixed{
		0:      {1: {GPUs: 2}, 2: {GPUs: 2}},
		1 * s:  {1: {GPUs: 4}},
		2 * s:  {1: {GPUs: 4, GPUType: "B"}, 2: {GPUs: 4}},
		3 * s:  {1: {GPUs: 4, GPUType: "B"}, 2: {GPUs: 1, On: cluster.Placement{{Node: 0, Index: 3}}}},
		4 * s:  {1: {GPUs: 4, GPUType: "B"}, 2: {GPUs: 1, On: cluster.Placement{{Node: 0, Index: 3}}}},
		10 * s: {},
	}
	e, err := New(nodes, Policies{Order: byNothing{}, Place: anywhere{}, Allocate: want, Round: s})
	if err != nil {
		t.Fatal(err)
	}
	jobs := []cluster.Job{
		{
			ID:       1,
			GPUs:     2,
			MinGPUs:  1,
			MaxGPUs:  4,
			Estimate: 100 * s,
		}, {ID: 2, GPUs: 2, MinGPUs: 1, MaxGPUs: 4, Estimate: 100 * s},
	}
	for _, tt := range []struct {
		at     time.Duration
		events []Event
		plan   string
		done   [2]time.Duration
	}{
		{
			0,
			[]Event{{Kind: Submitted, Facts: &jobs[0]}, {Kind: Submitted, Facts: &jobs[1]}},
			"+1 on 2 +2 on 2",
			[2]time.Duration{},
		},
		{1 * s, nil, "-2 -1 +1 on 4", [2]time.Duration{1 * s, 1 * s}},
		{2 * s, nil, "-1 +1 on 4 +2 on 4", [2]time.Duration{3 * s, 1 * s}},
		{3 * s, nil, "-2 +2 on 1", [2]time.Duration{5 * s, 3 * s}},
		{4 * s, nil, "", [2]time.Duration{7 * s, 3*s + s/2}},
		{10 * s, nil, "-1 -2", [2]time.Duration{19 * s, 6*s + s/2}},
	} {
		got := ""
		p := step(t, e, tt.at, tt.events...)
		for _, stop := range p.Stops {
			got += fmt.Sprintf(" -%d", stop.Job)
		}
		for _, start := range p.Starts {
			got += fmt.Sprintf(" +%d on %d", start.Job, len(start.On))
		}
		if got != "" {
			got = got[1:]
		}
		if done := [2]time.Duration{e.Job(1).Done(tt.at), e.Job(2).Done(tt.at)}; got != tt.plan || done != tt.done {
			t.Errorf("at %v: %q with %v done, want %q with %v", tt.at, got, done, tt.plan, tt.done)
		}
	}
}

// crowd is jobs of all sizes that arrive faster than they can be served.
func crowd(seed uint64, n int) []cluster.Job {
	r := rand.New(rand.NewPCG(seed, 0))
	jobs := make([]cluster.Job, n)
	for i := range jobs {
		jobs[i] = task(
			cluster.JobID(i),
			time.Duration(r.IntN(300))*s,
			time.Duration(1+r.IntN(60))*s,
			1+r.IntN(4)*r.IntN(3),
		)
		jobs[i].Priority, jobs[i].User = r.IntN(3), string(rune('a'+r.IntN(3)))
		if r.IntN(5) == 0 {
			jobs[i].GPUs, jobs[i].Share = 1, 100*(1+r.IntN(9))
		}
	}
	return jobs
}

// TestWorkConservation: under Fill, no GPUs are idle that a waiting job could use.
func TestWorkConservation(t *testing.T) {
	for name, o := range map[string]Orderer{
		"fifo": byNothing{}, "las": byService{}, "las2d": byService{perGPU: true},
		"srtf": byRemaining{}, "priority": byPriority{},
	} {
		for seed := range uint64(5) {
			p := Policies{Order: o, Place: anywhere{}, Preempt: enough{}, Walk: Fill, Quantum: 5 * s}
			v := prepare(t, machines(5, 4), p, crowd(seed, 150))
			v.after = func(now time.Duration, plan Plan) {
				audit(t, v.e)
				for j := range v.e.Waiting() {
					if on, ok := (anywhere{}).Place(v.e, j, j.GPUs()); ok {
						t.Fatalf("%s, seed %d, at %v: job %d waits and could have %v", name, seed, now, j.ID(), on)
					}
				}
			}
			v.run()
			if len(v.finished) != 150 {
				t.Errorf("%s, seed %d: %d of 150 jobs have finished", name, seed, len(v.finished))
			}
		}
	}
}

// TestJobsBehindArePreempted: if jobs are always preemptible, no waiting job could have the GPUs of
// a job that ranks behind it.
func TestJobsBehindArePreempted(t *testing.T) {
	for seed := range uint64(5) {
		v := prepare(t, machines(1, 3), Policies{Order: byRemaining{}, Place: anywhere{}, Preempt: enough{}}, nil)
		for _, j := range crowd(seed, 100) {
			j.GPUs, j.Share = 1, 0
			v.jobs, v.lengths[j.ID] = append(v.jobs, j), j.Length
		}
		slices.SortStableFunc(v.jobs, func(a, b cluster.Job) int { return int(a.Submit - b.Submit) })
		v.after = func(now time.Duration, _ Plan) {
			for r := range v.e.Running() {
				for w := range v.e.Waiting() {
					if w.Remaining(now) < r.Remaining(now) {
						t.Fatalf(
							"seed %d, at %v: job %d needs %v and waits for %d, which needs %v",
							seed,
							now,
							w.ID(),
							w.Remaining(now),
							r.ID(),
							r.Remaining(now),
						)
					}
				}
			}
		}
		v.run()
	}
}
