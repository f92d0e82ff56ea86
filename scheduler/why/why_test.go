package why

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/phos-gpu/phos/scheduler"
	"github.com/phos-gpu/phos/scheduler/admit"
	"github.com/phos-gpu/phos/scheduler/backfill"
	"github.com/phos-gpu/phos/scheduler/cluster"
	"github.com/phos-gpu/phos/scheduler/order"
	"github.com/phos-gpu/phos/scheduler/place"
	"github.com/phos-gpu/phos/scheduler/victims"
)

const (
	minute = time.Minute
	gib    = int64(1) << 30
)

// site is three nodes: two of type A with 80 GiB, one of type B.
func site() []cluster.Node {
	return []cluster.Node{
		{ID: 0, Name: "a0", GPUs: 4, GPUType: "A", GPUMemoryBytes: 80 * gib},
		{ID: 1, Name: "a1", GPUs: 4, GPUType: "A", GPUMemoryBytes: 80 * gib},
		{ID: 2, GPUs: 4, GPUType: "B", GPUMemoryBytes: 40 * gib},
	}
}

func submit(id cluster.JobID, gpus int, change ...func(*cluster.Job)) scheduler.Event {
	j := &cluster.Job{ID: id, GPUs: gpus, Estimate: 10 * minute, User: "u"}
	for _, c := range change {
		c(j)
	}
	return scheduler.Event{Kind: scheduler.Submitted, Facts: j}
}

func on(gpuType string) func(*cluster.Job) { return func(j *cluster.Job) { j.GPUType = gpuType } }

// TestText has clusters in which a job waits for each reason, and what is said of it.
func TestText(t *testing.T) {
	fifo := func() scheduler.Policies { return scheduler.Policies{Order: order.FIFO{}, Place: place.FirstFree{}} }
	for _, tt := range []struct {
		name     string
		policies func() scheduler.Policies
		events   []scheduler.Event
		job      cluster.JobID
		at       time.Duration
		want     []string
		ahead    string
	}{
		{
			"GPUs are taken, foreign and on a cordoned node", fifo,
			[]scheduler.Event{
				submit(1, 3, on("A")), submit(2, 4, on("A"), func(j *cluster.Job) { j.GPUMemoryBytes = 80 * gib }),
				{Kind: scheduler.Occupied, Node: 0, GPU: 3},
				{Kind: scheduler.Cordoned, Node: 1},
			},
			2, 5 * minute,
			[]string{
				"it waits since 5 min for 4 GPUs of type A with 80 GiB each",
				"of 8 GPUs that suit it: 0 free, 3 with jobs, 1 used by programs that are no jobs, 4 on cordoned nodes",
				"it is the first in the queue",
				"running jobs are not preempted for it",
			},
			"when it starts is unknown: the GPUs that it asks for are not free even when all other jobs have ended",
		},
		{
			"a job before it is too large", fifo,
			[]scheduler.Event{
				submit(1, 6), submit(2, 12, func(j *cluster.Job) { j.Name, j.User = "big", "v" }), submit(3, 1), submit(4, 2),
			},
			4, minute,
			[]string{
				"it waits since 1 min for 2 GPUs",
				"of 12 GPUs that suit it: 6 free (4 on node 2, 2 on a1), 6 with jobs",
				`2 jobs before it ask for 13 GPUs: job 2 "big" of v, job 3 of u`,
				"running jobs are not preempted for it",
			},
			"it starts in about 19 min if no other job arrives, by the owners' estimates",
		},
		{
			"overtaking", func() scheduler.Policies {
				p := fifo()
				p.Backfill = backfill.NewEASY()
				return p
			},
			[]scheduler.Event{submit(1, 6), submit(2, 12), submit(3, 5)},
			2, 2 * minute,
			[]string{
				"it waits since 2 min for 12 GPUs",
				"of 12 GPUs that suit it: 1 free (1 on node 2), 11 with jobs",
				"it is the first in the queue",
				"running jobs are not preempted for it",
				"by its reservation it starts in 8 min at the latest, unless others take longer than estimated",
			},
			"it starts in about 8 min if no other job arrives, by the owners' estimates",
		},
		{
			"a cap of an organisation", func() scheduler.Policies {
				p := fifo()
				p.Caps = map[string]int{"o": 4, "o/t": 10}
				return p
			},
			[]scheduler.Event{
				submit(1, 3, func(j *cluster.Job) { j.User = "o/s" }), submit(2, 2, func(j *cluster.Job) { j.User = "o/t" }),
			},
			2, 0,
			[]string{
				"it waits since 0 s for 2 GPUs",
				`user "o" holds 3 of 4 GPUs that it may hold`,
				"of 12 GPUs that suit it: 9 free (4 on a1, 4 on node 2, 1 on a0), 3 with jobs",
				"it is the first in the queue",
				"running jobs are not preempted for it",
			},
			"it starts in about 10 min if no other job arrives, by the owners' estimates",
		},
		{
			"more than the cap", func() scheduler.Policies {
				p := fifo()
				p.Caps = map[string]int{"u": 4}
				return p
			},
			[]scheduler.Event{submit(1, 5)},
			1, 0,
			[]string{
				"it waits since 0 s for 5 GPUs",
				`it never starts: user "u" may hold 4 GPUs at most`,
				"of 12 GPUs that suit it: 12 free (4 on a0, 4 on a1, 4 on node 2)",
				"it is the first in the queue",
				"running jobs are not preempted for it",
			},
			"when it starts is unknown: the GPUs that it asks for are not free even when all other jobs have ended",
		},
		{
			"not admitted", func() scheduler.Policies {
				p := fifo()
				p.Admit = admit.Load{Threshold: 0.5}
				return p
			},
			[]scheduler.Event{submit(1, 7), submit(2, 1), submit(3, 1, func(j *cluster.Job) { j.Share = 250 })},
			3, 90 * time.Second,
			[]string{
				"it waits since 1 min 30 s for 0.25 of a GPU",
				"it waits for admission behind 1 job: the admitted jobs ask for 7 GPUs, and the next is admitted at 6 or fewer",
				"of 12 GPUs that suit it: 5 free (4 on node 2, 1 on a1), 7 with jobs",
			},
			"it starts in about 8 min 30 s if no other job arrives, by the owners' estimates",
		},
		{
			"priorities", func() scheduler.Policies {
				p := scheduler.Policies{Order: order.Priority{Preemptive: true}, Place: place.FirstFree{}}
				p.Preempt, p.Quantum = victims.Tail{}, 4*minute
				return p
			},
			[]scheduler.Event{
				submit(1, 12, func(j *cluster.Job) { j.Priority = 1 }), submit(2, 5, func(j *cluster.Job) { j.Priority = 3 }),
				submit(3, 4, func(j *cluster.Job) { j.Priority = 2 }),
				submit(4, 3, func(j *cluster.Job) { j.Priority, j.Estimate = 9, 0 }),
			},
			1, minute,
			[]string{
				"it waits since 1 min for 12 GPUs",
				"of 12 GPUs that suit it: 0 free, 12 with jobs",
				"it is the first in the queue (priority 1)",
				"no running job can be preempted for it now: they rank before it, or have just started",
			},
			"when it starts is unknown: 1 running job has no estimate",
		},
		{
			"fragments", func() scheduler.Policies {
				return scheduler.Policies{Order: order.FIFO{}, Place: oneNode{}, Round: minute}
			},
			[]scheduler.Event{submit(1, 3), submit(2, 3), submit(3, 3), submit(4, 2)},
			4, 10 * time.Second,
			[]string{
				"it waits since 10 s for 2 GPUs",
				"of 12 GPUs that suit it: 3 free (1 on a0, 1 on a1, 1 on node 2), 9 with jobs",
				"enough are free, but at most 1 on one node: the placement policy may want them together",
				"it is the first in the queue",
				"running jobs are not preempted for it",
				"decisions are made every 1 min",
			},
			"it starts in about 9 min 50 s if no other job arrives, by the owners' estimates",
		},
		{
			"it runs", fifo,
			[]scheduler.Event{submit(1, 2)},
			1, 3 * minute,
			[]string{"it runs since 3 min on 0:0-1"},
			"it can start with the next decision",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			e, err := scheduler.New(site(), tt.policies())
			if err != nil {
				t.Fatal(err)
			}
			if _, err := e.Step(0, tt.events); err != nil {
				t.Fatal(err)
			}
			if _, err := e.Step(tt.at, nil); err != nil {
				t.Fatal(err)
			}
			a, err := Explain(e, tt.job)
			if err != nil {
				t.Fatal(err)
			}
			if got := a.Text(); !slices.Equal(got, tt.want) {
				t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(tt.want, "\n"))
			}
			f, err := Ahead(e, tt.job, tt.policies())
			if err != nil {
				t.Fatal(err)
			}
			c := f.Start(1000)
			if got := c.Text(e.Now()); got != tt.ahead {
				t.Errorf("got  %s\nwant %s", got, tt.ahead)
			}
		})
	}
}

// oneNode places jobs on one node only.
type oneNode struct{}

func (oneNode) Place(v scheduler.View, j *scheduler.Job, n int) (cluster.Placement, bool) {
	node, ok := v.Free().Next(j, 0, n, 64)
	if !ok {
		return nil, false
	}
	return v.Free().Pick(nil, node, n), true
}

func TestNoJob(t *testing.T) {
	e, err := scheduler.New(site(), scheduler.Policies{Order: order.FIFO{}, Place: place.FirstFree{}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Explain(e, 1); !errors.Is(err, ErrNoJob) {
		t.Errorf("got %v", err)
	}
	if _, err := Ahead(e, 1, e.Policies()); !errors.Is(err, ErrNoJob) {
		t.Errorf("got %v", err)
	}
}

// TestMissing: what is said is said for exactly the jobs that the engine refuses.
func TestMissing(t *testing.T) {
	p := scheduler.Policies{Order: order.FIFO{}, Place: place.FirstFree{}, Caps: map[string]int{"o": 2}}
	const has = "; the cluster has 8 A (80 GiB), 4 B (40 GiB)"
	for want, j := range map[string]cluster.Job{
		"":                                   {GPUs: 12},
		"0":                                  {GPUs: 4, GPUMemoryBytes: 40 * gib},
		"it asks for 13 GPUs" + has:          {GPUs: 13},
		"it asks for 5 GPUs of type B" + has: {GPUs: 5, GPUType: "B"},
		"it asks for 1 GPU of type C with 1 GiB" + has: {GPUs: 1, GPUType: "C", GPUMemoryBytes: gib},
		"it asks for 9 GPUs with 41 GiB each" + has:    {GPUs: 9, GPUMemoryBytes: 41 * gib},
		"it asks for 0.5 of a GPU with 90 GiB" + has:   {GPUs: 1, Share: 500, GPUMemoryBytes: 90 * gib},
		"it asks for 14 to 20 GPUs" + has:              {GPUs: 16, MinGPUs: 14, MaxGPUs: 20, User: "o/t"},
		"1":                                            {GPUs: 16, MinGPUs: 1, MaxGPUs: 20, User: "o/t"},
	} {
		if len(want) < 3 {
			want = ""
		}
		e, err := scheduler.New(site(), p)
		if err != nil {
			t.Fatal(err)
		}
		got := Missing(e, &j)
		if got != want {
			t.Errorf("%+v: got %q, want %q", j, got, want)
		}
		_, err = e.Step(0, []scheduler.Event{{Kind: scheduler.Submitted, Facts: &j}})
		if errors.Is(err, scheduler.ErrTooLarge) != (got != "") {
			t.Errorf("%+v: %q, and the engine says %v", j, got, err)
		}
	}
	none, err := scheduler.New(nil, p)
	if err != nil {
		t.Fatal(err)
	}
	if got := Missing(none, &cluster.Job{GPUs: 1}); got != "it asks for 1 GPU; the cluster has no GPUs" {
		t.Errorf("got %q", got)
	}
}

// world is an engine whose jobs run for as long as estimated.
type world struct {
	engine *scheduler.Engine
	now    time.Duration
	starts map[cluster.JobID]time.Duration // later ones replace earlier ones
}

// step makes a step at a time.
func (w *world) step(t *testing.T, at time.Duration, events ...scheduler.Event) {
	t.Helper()
	w.now = at
	for j := range w.engine.Running() {
		if j.Due() > at {
			break
		}
		events = append(events, scheduler.Event{Kind: scheduler.Finished, Job: j.ID()})
	}
	plan, err := w.engine.Step(at, events)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range plan.Starts {
		w.starts[s.Job] = s.Ready
	}
}

// next returns when something happens, or a time far away.
func (w *world) next() time.Duration {
	at := time.Duration(1 << 60)
	for j := range w.engine.Running() {
		at = j.Due()
		break
	}
	if wake, ok := w.engine.Wake(); ok {
		at = min(at, wake)
	}
	return max(w.now, at)
}

// TestForecasts: jobs of random clusters start when it was said, if no other job arrives and all
// estimates are right. Asking changes nothing: an engine that was not asked makes the same plans.
func TestForecasts(t *testing.T) {
	settings := map[string]func() scheduler.Policies{
		"fifo": func() scheduler.Policies { return scheduler.Policies{Order: order.FIFO{}} },
		"easy": func() scheduler.Policies {
			return scheduler.Policies{Order: order.FIFO{}, Backfill: backfill.NewEASY()}
		},
		"sjf":  func() scheduler.Policies { return scheduler.Policies{Order: order.SJF{}} },
		"srtf": func() scheduler.Policies { return scheduler.Policies{Order: order.SRTF{}, Preempt: victims.Tail{}} },
		"las": func() scheduler.Policies {
			return scheduler.Policies{Order: order.LAS{}, Preempt: victims.Tail{}, Quantum: 20 * time.Second}
		},
		"drf, rounds": func() scheduler.Policies {
			return scheduler.Policies{Order: order.DRF{}, Preempt: victims.Tail{}, Round: 15 * time.Second}
		},
		"priority, load, caps": func() scheduler.Policies {
			return scheduler.Policies{
				Order: order.Priority{Preemptive: true}, Preempt: victims.Tail{}, Admit: admit.Load{Threshold: 1.5},
				Caps: map[string]int{"a": 5},
			}
		},
	}
	said := 0
	for name, policies := range settings {
		for seed := range uint64(12) {
			r := rand.New(rand.NewPCG(seed, 4))
			build := func() *world {
				p := policies()
				p.Place = place.FirstFree{}
				e, err := scheduler.New(site(), p)
				if err != nil {
					t.Fatal(err)
				}
				return &world{engine: e, starts: map[cluster.JobID]time.Duration{}}
			}
			asked, not := build(), build()
			at := time.Duration(0)
			for id := range cluster.JobID(40) {
				at += time.Duration(r.IntN(20)) * time.Second
				event := submit(id, 1+r.IntN(4), func(j *cluster.Job) {
					j.Submit, j.Estimate = at, time.Duration(1+r.IntN(90))*time.Second
					j.User, j.Priority = []string{"a", "b"}[r.IntN(2)], r.IntN(3)
				})
				for asked.next() < at {
					asked.step(t, asked.next())
					not.step(t, asked.now)
				}
				asked.step(t, at, event)
				not.step(t, at, event)
				ask(t, asked.engine, func() scheduler.Policies { p := policies(); p.Place = place.FirstFree{}; return p }, nil)
			}
			forecasts := map[cluster.JobID]time.Duration{}
			ask(t, asked.engine, func() scheduler.Policies { p := policies(); p.Place = place.FirstFree{}; return p }, forecasts)
			before := len(asked.starts)
			first := map[cluster.JobID]time.Duration{}
			for asked.engine.Live() > 0 {
				asked.starts = map[cluster.JobID]time.Duration{}
				asked.step(t, asked.next())
				not.step(t, asked.now)
				for id, at := range asked.starts {
					if _, ok := first[id]; !ok {
						first[id] = at
					}
				}
			}
			for id, at := range forecasts {
				said++
				if first[id] != at {
					t.Errorf("%s, seed %d: job %d was said to start at %v, and starts at %v", name, seed, id, at, first[id])
				}
			}
			if not.engine.Live() != 0 || before == 0 || !reflect.DeepEqual(lastOf(not.starts, first), first) {
				t.Errorf("%s, seed %d: an engine that was not asked decides differently", name, seed)
			}
		}
	}
	if said < 500 {
		t.Errorf("only %d forecasts", said)
	}
}

// lastOf returns the times of some jobs, those of b where a job started more than once.
func lastOf(starts, b map[cluster.JobID]time.Duration) map[cluster.JobID]time.Duration {
	same := map[cluster.JobID]time.Duration{}
	for id, at := range b {
		if starts[id] >= at {
			same[id] = at
		}
	}
	return same
}

// ask explains every job, counts what the answers have in another way, and keeps when waiting jobs
// are said to start.
func ask(
	t *testing.T,
	e *scheduler.Engine,
	policies func() scheduler.Policies,
	starts map[cluster.JobID]time.Duration,
) {
	t.Helper()
	jobs := slices.AppendSeq(slices.AppendSeq(e.Held(), e.Waiting()), e.Running())
	queue := 0
	for _, j := range jobs {
		a, err := Explain(e, j.ID())
		if err != nil {
			t.Fatal(err)
		}
		s := a.Supply
		free := 0
		for _, n := range e.Nodes() {
			if j.GPUType() == "" || j.GPUType() == n.GPUType {
				for i := range n.GPUs {
					if e.Free().Mask(n.ID)&(1<<i) != 0 {
						free++
					}
				}
			}
		}
		if s.Free+s.Busy+s.Foreign+s.Cordoned+s.Draining+s.Lost != s.Total || s.Free != free {
			t.Fatalf("job %d: %+v, counted %d free", j.ID(), s, free)
		}
		if j.Phase() == scheduler.Waiting {
			if a.Before.Jobs != queue {
				t.Fatalf("job %d: %d jobs are before it, counted %d", j.ID(), a.Before.Jobs, queue)
			}
			queue++
		}
		for _, line := range a.Text() {
			if line == "" || strings.Contains(line, "%!") {
				t.Fatalf("job %d: %q", j.ID(), line)
			}
		}
		if starts == nil || j.Phase() == scheduler.Running {
			continue
		}
		f, err := Ahead(e, j.ID(), policies())
		if err != nil {
			t.Fatal(err)
		}
		c := f.Start(5000)
		if !c.Known {
			t.Fatalf("job %d: %s", j.ID(), c.Unknown)
		}
		starts[j.ID()] = c.At
	}
}

// TestCut: the simulation ends after the steps that it was given.
func TestCut(t *testing.T) {
	e, err := scheduler.New(site()[:1], scheduler.Policies{Order: order.FIFO{}, Place: place.FirstFree{}})
	if err != nil {
		t.Fatal(err)
	}
	var events []scheduler.Event
	for id := range cluster.JobID(20) {
		events = append(events, submit(id, 4))
	}
	if _, err := e.Step(0, events); err != nil {
		t.Fatal(err)
	}
	f, err := Ahead(e, 19, e.Policies())
	if err != nil {
		t.Fatal(err)
	}
	c := f.Start(5)
	const cut = "when it starts is unknown: it does not start within 5 decisions that were simulated"
	if text := c.Text(0); c.Steps != 5 || text != cut {
		t.Errorf("got %q, %+v", text, c)
	}
	if f, err = Ahead(e, 19, e.Policies()); err != nil {
		t.Fatal(err)
	}
	if c := f.Start(100); !c.Known || c.At != 190*minute {
		t.Errorf("got %+v", c)
	}
}

// TestOverdue: jobs that run for longer than estimated are taken to end soon, and that is said.
func TestOverdue(t *testing.T) {
	e, err := scheduler.New(site()[:1], scheduler.Policies{Order: order.FIFO{}, Place: place.FirstFree{}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := e.Step(0, []scheduler.Event{submit(1, 4), submit(2, 4)}); err != nil {
		t.Fatal(err)
	}
	if _, err := e.Step(100*minute, nil); err != nil {
		t.Fatal(err)
	}
	f, err := Ahead(e, 2, e.Policies())
	if err != nil {
		t.Fatal(err)
	}
	c := f.Start(100)
	const want = "it starts in about 10 min if no other job arrives, by the owners' estimates; " +
		"1 job runs longer than estimated, and may end at any time"
	if got := c.Text(e.Now()); got != want {
		t.Errorf("got %q", got)
	}
}

// TestWords: each order says something of each job, and no more than a few words.
func TestWords(t *testing.T) {
	for _, name := range order.Names() {
		for _, aging := range []time.Duration{0, time.Minute} {
			o, err := order.ByName(name, order.Parameters{Quotas: map[string]float64{"u": 3}, Aging: aging})
			if err != nil {
				continue // aging under an order of groups
			}
			e, err := scheduler.New(site(), scheduler.Policies{Order: o, Place: place.FirstFree{}})
			if err != nil {
				t.Fatal(err)
			}
			for _, event := range []scheduler.Event{submit(1, 12), submit(2, 3)} {
				if _, err := e.Step(0, []scheduler.Event{event}); err != nil {
					t.Fatal(err)
				}
			}
			for _, at := range []time.Duration{0, time.Hour} {
				if _, err := e.Step(at, nil); err != nil {
					t.Fatal(err)
				}
				a, err := Explain(e, 2)
				if err != nil {
					t.Fatal(err)
				}
				if text := a.Before.Words; len(text) > 60 || text == "" && (name != "fifo" || aging > 0 && at > aging) {
					t.Errorf("%s: %q", name, text)
				}
				if got := fmt.Sprint(a.Text()); strings.Contains(got, "()") {
					t.Errorf("%s: %s", name, got)
				}
			}
		}
	}
}
