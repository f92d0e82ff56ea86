package scheduler

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/phos-gpu/phos/scheduler/cluster"
)

// told is a step of a history: what an engine is told, and the plan that it must make.
type told struct {
	at     time.Duration
	events []Event
	plan   string
}

// summary writes a plan as in "-1 +2#1 on 0:0": job 1 stops, and run 1 of job 2 starts.
func summary(p Plan) string {
	var words []string
	for _, stop := range p.Stops {
		words = append(words, fmt.Sprintf("-%d", stop.Job))
	}
	for _, start := range p.Starts {
		words = append(words, fmt.Sprintf("+%d#%d on %v", start.Job, start.Run, start.On))
	}
	return strings.Join(words, " ")
}

// TestReports has histories of a cluster in which not everything goes as planned.
func TestReports(t *testing.T) {
	job := func(id cluster.JobID, gpus, priority int) *cluster.Job {
		return &cluster.Job{ID: id, GPUs: gpus, Priority: priority, Estimate: 100 * s}
	}
	comes := func(id cluster.JobID, gpus, priority int) Event {
		return Event{Kind: Submitted, Facts: job(id, gpus, priority)}
	}
	preempts := Policies{Order: byPriority{}, Preempt: enough{}}
	gpu := func(node cluster.NodeID, index int32) cluster.Placement {
		return cluster.Placement{{Node: node, Index: index}}
	}
	for _, tt := range []struct {
		name  string
		p     Policies
		steps []told
		check func(e *Engine) bool
	}{
		{
			"a refused run starts elsewhere, with another number",
			Policies{Order: byNothing{}},
			[]told{
				{0, []Event{comes(1, 2, 0)}, "+1#1 on 0:0-1"},
				{s, []Event{{Kind: Refused, Job: 1, Run: 1}, {Kind: Cordoned, Node: 0}}, "+1#2 on 1:0-1"},
				{2 * s, []Event{{Kind: Refused, Job: 1, Run: 1}, {Kind: Failed, Job: 1, Run: 1}}, ""},
			},
			func(e *Engine) bool {
				j := e.Job(1)
				first, _ := j.FirstStart()
				return first == s && j.Attained(3*s) == 2*s && j.runs == 1 && j.failures == 0
			},
		},
		{
			"without a reason, the same again",
			Policies{Order: byNothing{}},
			[]told{
				{0, []Event{comes(1, 2, 0)}, "+1#1 on 0:0-1"},
				{s, []Event{{Kind: Refused, Job: 1}}, "+1#2 on 0:0-1"},
			},
			nil,
		},
		{
			"a job that could not be saved runs on, and the urgent one goes elsewhere", preempts,
			[]told{
				{0, []Event{comes(1, 2, 0), comes(2, 2, 1)}, "+2#1 on 0:0-1 +1#1 on 1:0-1"},
				{s, []Event{comes(3, 2, 2)}, "-1 +3#1 on 1:0-1"},
				{
					3 * s,
					[]Event{{Kind: Kept, Job: 1, Run: 1}, {Kind: Refused, Job: 3}, {Kind: Cordoned, Node: 1}},
					"-2 +3#2 on 0:0-1",
				},
			},
			func(e *Engine) bool {
				j := e.Job(1)
				return j.phase == Running && j.Attained(4*s) == 4*s && j.Preemptions() == 0 && j.Waited(4*s) == 0
			},
		},
		{
			"its GPUs must be given back first", preempts,
			[]told{
				{0, []Event{comes(1, 4, 0)}, "+1#1 on 0-1:0-1"},
				{s, []Event{comes(2, 1, 1)}, "-1 +2#1 on 0:0"},
				{2 * s, []Event{{Kind: Kept, Job: 1}}, "!"},
				{3 * s, []Event{{Kind: Kept, Job: 1, Run: 2}}, "!"},
				{3 * s, []Event{{Kind: Kept, Job: 1, On: cluster.Placement{{Node: 0, Index: 1}, {Node: 1, Index: 0}}}}, ""},
			},
			func(e *Engine) bool {
				j := e.Job(1) // 3 s on 4 GPUs, and 1 s on 2
				return j.Service(4*s) == 14*s && j.Done(4*s) == 3*s+s/2 && e.User("").GPUs == 3
			},
		},
		{
			"a job that cannot be drained stays until the next attempt",
			Policies{Order: byNothing{}},
			[]told{
				{0, []Event{comes(1, 2, 0)}, "+1#1 on 0:0-1"},
				{s, []Event{{Kind: Drained, Node: 0}}, "-1 +1#2 on 1:0-1"},
				{2 * s, []Event{{Kind: Kept, Job: 1, Run: 1}, {Kind: Refused, Job: 1, Run: 2}}, "!"},
				{2 * s, []Event{{Kind: Cordoned, Node: 1}, {Kind: Refused, Job: 1, Run: 3}, {Kind: Kept, Job: 1, Run: 1}}, ""},
				{3 * s, []Event{comes(2, 1, 0)}, ""},
				{4 * s, []Event{{Kind: Drained, Node: 0}, {Kind: NodeUp, Node: 1}}, "-1 +1#4 on 1:0-1"},
				{5 * s, []Event{{Kind: Finished, Job: 1}}, "+2#1 on 1:0"},
			},
			nil,
		},
		{
			"a lost node comes back with its job",
			Policies{Order: byNothing{}},
			[]told{
				{0, []Event{comes(1, 4, 0)}, "+1#1 on 0-1:0-1"},
				{10 * s, []Event{{Kind: NodeDown, Node: 0}}, "-1"},
				{12 * s, []Event{{Kind: NodeUp, Node: 0}, {Kind: Kept, Job: 1, Run: 1}}, ""},
			},
			func(e *Engine) bool { return e.Job(1).Done(12*s) == 12*s && e.free.State(0) == NodeOpen },
		},
		{
			"an occupied GPU goes to no job; one that has it keeps it", preempts,
			[]told{
				{0, []Event{comes(1, 1, 0), {Kind: Occupied, Node: 0, GPU: 1}}, "+1#1 on 0:0"},
				{s, []Event{{Kind: Occupied, Node: 0, GPU: 0}, comes(2, 2, 1)}, "+2#1 on 1:0-1"},
				{2 * s, []Event{comes(3, 1, 1)}, ""},
				{3 * s, []Event{{Kind: Finished, Job: 1}}, ""},
				{4 * s, []Event{{Kind: Vacated, Node: 0, GPU: 0}, {Kind: Vacated, Node: 0, GPU: 0}}, "+3#1 on 0:0"},
			},
			nil,
		},
		{
			"a job larger than what is vacant waits, and is not refused",
			Policies{Order: byNothing{}},
			[]told{
				{0, []Event{{Kind: Occupied, Node: 0, GPU: 1}}, ""},
				{s, []Event{comes(1, 4, 0)}, ""},
				{2 * s, []Event{{Kind: NodeDown, Node: 0}}, ""},
				{3 * s, []Event{{Kind: NodeUp, Node: 0}}, "+1#1 on 0-1:0-1"},
			},
			nil,
		},
		{
			"a node keeps its occupied GPUs while it is cordoned, and comes back with fewer",
			Policies{Order: byNothing{}},
			[]told{
				{0, []Event{
					comes(1, 1, 0), {Kind: Occupied, Node: 0, GPU: 1}, {Kind: Cordoned, Node: 0}, {Kind: Cordoned, Node: 1},
				}, ""},
				{s, []Event{{Kind: NodeUp, Node: 0, Machine: &cluster.Node{ID: 0, GPUs: 3}}}, "+1#1 on 0:0"},
				{2 * s, []Event{{Kind: Cordoned, Node: 0}}, ""},
				{3 * s, []Event{{Kind: NodeUp, Node: 0, Machine: &cluster.Node{ID: 0}}}, "!"},
				{4 * s, []Event{{Kind: NodeUp, Node: 0, Machine: &cluster.Node{ID: 0, GPUs: 1}}}, ""},
				{5 * s, []Event{comes(2, 1, 0)}, ""},
				{6 * s, []Event{{Kind: Finished, Job: 1}}, "+2#1 on 0:0"},
			},
			nil,
		},
		{
			"a job that shrinks is slower, and the GPUs are another job's",
			Policies{Order: byNothing{}},
			[]told{
				{0, []Event{comes(1, 4, 0), comes(2, 1, 0)}, "+1#1 on 0-1:0-1"},
				{40 * s, []Event{{Kind: Shrunk, Job: 1, Run: 1, On: slices.Concat(gpu(1, 0), gpu(0, 1))}}, "+2#1 on 0:0"},
				{50 * s, []Event{{Kind: Shrunk, Job: 1, Run: 1, On: slices.Concat(gpu(0, 1), gpu(1, 0))}}, ""},
			},
			func(e *Engine) bool {
				j := e.Job(1)
				return j.Done(60*s) == 50*s && j.Service(60*s) == 200*s && j.Attained(60*s) == 60*s && j.Due() == 160*s &&
					e.Demand() == 5
			},
		},
		{
			"jobs are taken over in the order of their submission, before new ones",
			Policies{Order: byNothing{}},
			[]told{
				{9 * s, []Event{
					{Kind: Submitted, Facts: &cluster.Job{ID: 9, GPUs: 1, Submit: 9 * s}},
					{Kind: Adopted, State: &JobState{
						Job: cluster.Job{ID: 3, GPUs: 4, Submit: 2 * s}, Phase: Waiting, LastRun: 7, Runs: 2,
					}},
					{Kind: Adopted, State: &JobState{
						Job: cluster.Job{ID: 4, GPUs: 1, Submit: 1 * s}, Phase: Running, On: gpu(0, 1), Run: 5,
					}},
				}, ""},
				{10 * s, []Event{{Kind: Finished, Job: 4, Run: 5}}, "+3#8 on 0-1:0-1"},
			},
			nil,
		},
		{
			"jobs that run may exceed a cap",
			Policies{Order: byNothing{}, Caps: map[string]int{"a": 1}},
			[]told{
				{s, []Event{
					{Kind: Adopted, State: &JobState{Job: cluster.Job{ID: 1, GPUs: 1, User: "a"}, Phase: Running, On: gpu(0, 0)}},
					{Kind: Adopted, State: &JobState{Job: cluster.Job{ID: 2, GPUs: 1, User: "a"}, Phase: Running, On: gpu(0, 1)}},
					{Kind: Adopted, State: &JobState{Job: cluster.Job{ID: 3, GPUs: 1, User: "a"}, Phase: Waiting}},
				}, ""},
				{2 * s, []Event{{Kind: Finished, Job: 1}}, ""},
				{3 * s, []Event{{Kind: Finished, Job: 2}}, "+3#1 on 0:0"},
			},
			nil,
		},
		{
			"a job that was being saved when the scheduler died",
			Policies{Order: byNothing{}},
			[]told{
				{20 * s, []Event{{Kind: Cordoned, Node: 1}, {
					Kind: Adopted, State: &JobState{
						Job: cluster.Job{ID: 1, GPUs: 2}, Phase: Waiting, Runs: 1, On: cluster.Placement{{Node: 0}, {Node: 0, Index: 1}},
						WaitingSince: 10 * s, SavedAt: 25 * s, Attained: 10 * s, Done: 10 * s, Service: 20 * s,
					},
				}}, "+1#2 on 0:0-1"},
				{30 * s, []Event{{Kind: Refused, Job: 1, Run: 2}, {Kind: Kept, Job: 1, Run: 1}}, ""},
			},
			func(e *Engine) bool { return e.Job(1).Attained(30*s) == 30*s && e.Job(1).Done(30*s) == 30*s },
		},
		{
			"a new node with a job on it is closed and opened at once, and has room",
			Policies{Order: byNothing{}},
			[]told{
				{s, []Event{
					{Kind: NodeUp, Node: 2, Machine: &cluster.Node{ID: 2, GPUs: 2}},
					{Kind: Cordoned, Node: 2},
					{Kind: Adopted, State: &JobState{Job: cluster.Job{ID: 1, GPUs: 1}, Phase: Running, On: gpu(2, 0)}},
					{Kind: NodeUp, Node: 2},
				}, ""},
			},
			func(e *Engine) bool { return e.Job(1).phase == Running && !e.free.closed[2] },
		},
		{
			"a new node with a job on it",
			Policies{Order: byNothing{}},
			[]told{
				{s, []Event{
					{Kind: Adopted, State: &JobState{Job: cluster.Job{ID: 1, GPUs: 1}, Phase: Running, On: gpu(2, 0)}},
					{Kind: NodeUp, Node: 2, Machine: &cluster.Node{ID: 2, GPUs: 1}},
				}, ""},
			},
			func(e *Engine) bool { return e.Job(1).phase == Running },
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.p.Place = lowest{}
			e, err := New(machines(2, 2), tt.p)
			if err != nil {
				t.Fatal(err)
			}
			e.Observe(witness{})
			for _, step := range tt.steps {
				p, err := e.Step(step.at, step.events)
				var refused *EventError
				if got := summary(p); errors.As(err, &refused) != (step.plan == "!") || step.plan != "!" && got != step.plan {
					t.Fatalf("at %v: %q, %v, want %q", step.at, got, err, step.plan)
				}
				audit(t, e)
			}
			if tt.check != nil && !tt.check(e) {
				t.Errorf("got %+v, %+v", e.Job(1), e.User(""))
			}
		})
	}
}

// TestOrderOfReports: events of different jobs and nodes have the same effect in whatever order
// they are reported.
func TestOrderOfReports(t *testing.T) {
	for seed := range uint64(100) {
		r := rand.New(rand.NewPCG(seed, 3))
		m := &model{
			nodes: machines(3, 4), closed: map[cluster.NodeID]bool{}, foreign: map[cluster.GPU]bool{},
			jobs: map[cluster.JobID]*modelJob{}, retries: 2,
		}
		one, err := New(m.nodes, Policies{Order: byService{}, Place: lowest{}, Preempt: enough{}, Quantum: 2 * s})
		if err != nil {
			t.Fatal(err)
		}
		two, err := New(m.nodes, one.policies)
		if err != nil {
			t.Fatal(err)
		}
		for step := range 100 {
			h := history{r: r, model: m}
			events := h.events(cluster.JobID(10 * step))
			p, _ := one.Step(m.now, events)
			for range 10 * min(1, len(events)/2) {
				a := r.IntN(len(events) - 1)
				x, y := &events[a], &events[a+1]
				if x.subject() != y.subject() || (x.category() == ofNodes) != (y.category() == ofNodes) {
					*x, *y = *y, *x
				}
			}
			if again, _ := two.Step(m.now, events); summary(again) != summary(p) {
				t.Fatalf("seed %d, step %d: %s, and in another order %s", seed, step, summary(p), summary(again))
			}
			m.now += time.Duration(r.IntN(3)) * s
			for id, j := range one.jobs { // so that the next events are possible
				m.jobs[id] = &modelJob{Job: j.facts, running: j.phase == Running, on: j.placement, run: j.run}
				if j.stopped != nil {
					m.jobs[id].stopped = &modelJob{on: j.stopped.on}
				}
			}
		}
	}
}
