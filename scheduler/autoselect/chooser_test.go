package autoselect

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/phos-gpu/phos/scheduler"
	"github.com/phos-gpu/phos/scheduler/admit"
	"github.com/phos-gpu/phos/scheduler/backfill"
	"github.com/phos-gpu/phos/scheduler/cluster"
	"github.com/phos-gpu/phos/scheduler/order"
	"github.com/phos-gpu/phos/scheduler/place"
	"github.com/phos-gpu/phos/scheduler/schedulertest"
	"github.com/phos-gpu/phos/scheduler/victims"
)

// price is the cost of a preemption.
type price struct{ save, load time.Duration }

func (p price) Save(*scheduler.Job) time.Duration                    { return p.save }
func (p price) Load(*scheduler.Job, cluster.Placement) time.Duration { return p.load }
func (p price) Lost(*scheduler.Job, time.Duration) time.Duration     { return 0 }

func base(cost, quantum time.Duration) func() scheduler.Policies {
	return func() scheduler.Policies {
		return scheduler.Policies{
			Place:   place.BestFit{},
			Preempt: victims.Tail{},
			Costs:   price{cost, cost},
			Quantum: quantum,
		}
	}
}

func machines(n, gpus int) []cluster.Node {
	nodes := make([]cluster.Node, n)
	for i := range nodes {
		nodes[i] = cluster.Node{ID: cluster.NodeID(i), GPUs: gpus}
	}
	return nodes
}

// played is the result of a simulation.
type played struct {
	ends  map[cluster.JobID]time.Duration
	stops int
}

func (p *played) mean(jobs []cluster.Job) float64 {
	sum := 0.0
	for i := range jobs {
		sum += (p.ends[jobs[i].ID] - jobs[i].Submit).Seconds()
	}
	return sum / float64(len(jobs))
}

// play runs jobs, sorted by submission, with exact estimates.
func play(t *testing.T, nodes []cluster.Node, p scheduler.Policies, jobs []cluster.Job) *played {
	t.Helper()
	e, err := scheduler.New(nodes, p)
	if err != nil {
		t.Fatal(err)
	}
	out := &played{ends: map[cluster.JobID]time.Duration{}}
	for steps := 0; len(jobs) > 0 || e.Live() > 0; steps++ {
		at, ok := next(e)
		if len(jobs) > 0 && (!ok || jobs[0].Submit < at) {
			at, ok = jobs[0].Submit, true
		}
		if !ok || steps > 1_000_000 {
			t.Fatalf("%d jobs never end", e.Live())
		}
		events := due(e, at, func(j *scheduler.Job, at time.Duration) { out.ends[j.ID()] = at })
		for len(jobs) > 0 && jobs[0].Submit == at {
			events = append(events, scheduler.Event{Kind: scheduler.Submitted, Facts: &jobs[0]})
			jobs = jobs[1:]
		}
		plan, err := e.Step(at, events)
		if err != nil {
			t.Fatal(err)
		}
		out.stops += len(plan.Stops)
	}
	return out
}

func job(id cluster.JobID, submit, length time.Duration, gpus int) cluster.Job {
	return cluster.Job{ID: id, Submit: submit, Length: length, Estimate: length, GPUs: gpus}
}

// mix is jobs of many lengths, more than fit on 8 GPUs at once.
func mix(seed uint64, n int) []cluster.Job {
	random := rand.New(rand.NewPCG(seed, 9))
	var jobs []cluster.Job
	at := time.Duration(0)
	for id := range cluster.JobID(n) {
		at += time.Duration(random.IntN(1200)) * time.Second
		length := time.Duration(60+random.IntN(600)) * time.Second
		if random.IntN(5) == 0 {
			length *= 20
		}
		jobs = append(jobs, job(id, at, length, 1<<random.IntN(4)))
	}
	return jobs
}

func candidates(t *testing.T, names ...string) []Candidate {
	t.Helper()
	var out []Candidate
	for _, name := range names {
		o, err := order.ByName(name, order.Parameters{Quotas: map[string]float64{"": 8}})
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, Candidate{Name: name, Order: o})
	}
	return out
}

func chosen(t *testing.T, base func() scheduler.Policies, o Options, of ...Candidate) *Chooser {
	t.Helper()
	c, err := New(base, of, o)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// fixed returns a candidate's policies without a Chooser, with the same walk.
func fixed(base func() scheduler.Policies, walk scheduler.Walk, c Candidate) scheduler.Policies {
	p := base()
	p.Order, p.Admit, p.Walk = c.Order, c.Admit, walk
	return p
}

func TestOneCandidateIsTheFixedPolicy(t *testing.T) {
	for _, name := range []string{"fifo", "sjf", "srtf", "las2d", "dlas"} {
		for seed := range uint64(5) {
			one := candidates(t, name)[0]
			if seed%2 == 1 {
				one.Admit = admit.Load{Threshold: 1.2}
			}
			b := base(10*time.Second, time.Minute)
			jobs, nodes := mix(seed, 60), machines(2, 4)
			got := play(t, nodes, chosen(t, b, Options{}, one).Policies(), jobs)
			want := play(t, nodes, fixed(b, scheduler.ByOrder, one), jobs)
			if fmt.Sprint(got) != fmt.Sprint(want) {
				t.Errorf("%s, seed %d: alone, a candidate does not do what it does without a chooser", name, seed)
			}
		}
	}
}

// TestLookingAheadLeavesNoTrace has two equal candidates: comparing them must change nothing.
func TestLookingAheadLeavesNoTrace(t *testing.T) {
	for seed := range uint64(5) {
		two := append(candidates(t, "srtf"), Candidate{Name: "again", Order: order.SRTF{}})
		b := base(10*time.Second, time.Minute)
		jobs, nodes := mix(seed, 60), machines(2, 4)
		c := chosen(t, b, Options{Every: 10 * time.Minute}, two...)
		got := play(t, nodes, c.Policies(), jobs)
		want := play(t, nodes, fixed(b, scheduler.Fill, two[0]), jobs)
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("seed %d: looking ahead changed what happened", seed)
		}
		if len(c.Choices()) < 10 || c.Current() != "srtf" {
			t.Errorf("seed %d: %d comparisons, %s in force", seed, len(c.Choices()), c.Current())
		}
		for _, choice := range c.Choices() {
			if choice.Means[0] != choice.Means[1] || choice.Means[0] <= 0 {
				t.Errorf("seed %d: the same policy has the means %v", seed, choice.Means)
			}
		}
	}
}

// TestForkGoesOnLikeTheEngine: a fork without arrivals behaves like the engine. (Not under orders
// whose ranks hold for a fixed time, as themis: a fork asks for all ranks at once.)
func TestForkGoesOnLikeTheEngine(t *testing.T) {
	for _, name := range []string{"fifo", "sjf", "srtf", "las", "las2d", "dlas", "dlas-gpu", "drf", "quota"} {
		for seed := range uint64(4) {
			o := candidates(t, name)[0].Order
			p := base(15*time.Second, 2*time.Minute)()
			p.Order, p.Admit = o, admit.Load{Threshold: 1.5}
			if seed == 3 {
				p.Round = time.Minute
			}
			e, err := scheduler.New(machines(2, 4), p)
			if err != nil {
				t.Fatal(err)
			}
			jobs := mix(seed, 40)
			at := time.Duration(0)
			for i := range jobs { // all within an hour and a half
				for due, ok := next(e); ok && due < jobs[i].Submit/4; due, ok = next(e) {
					at = due
					if _, err := e.Step(at, due2(e, at)); err != nil {
						t.Fatal(err)
					}
				}
				at = jobs[i].Submit / 4
				jobs[i].Submit = at
				if _, err := e.Step(at, append(due2(e, at), scheduler.Event{
					Kind:  scheduler.Submitted,
					Facts: &jobs[i],
				})); err != nil {
					t.Fatal(err)
				}
			}
			f, err := scheduler.Fork(e, p)
			if err != nil {
				t.Fatal(err)
			}
			live := e.Live()
			forked, n, _ := drain(f, 1_000_000, math.Inf(1))
			if e.Live() != live || n != live || live < 5 {
				t.Fatalf("%s: %d jobs lived, %d were played, %d live now", name, live, n, e.Live())
			}
			if real, _, _ := drain(e, 1_000_000, math.Inf(1)); real != forked {
				t.Errorf("%s, seed %d: the fork's jobs take %g s, the engine's %g s", name, seed, forked, real)
			}
		}
	}
}

func due2(e *scheduler.Engine, at time.Duration) []scheduler.Event {
	return due(e, at, func(*scheduler.Job, time.Duration) {})
}

func TestForkOfAView(t *testing.T) {
	made := func(id cluster.JobID, phase scheduler.Phase, estimate, done time.Duration) schedulertest.Job {
		return schedulertest.Job{Job: job(id, 0, estimate, 1), Phase: phase, Done: done, Since: time.Hour}
	}
	running := made(1, scheduler.Running, 2*time.Hour, time.Hour)
	running.On = cluster.Placement{{Node: 0, Index: 0}}
	v := schedulertest.NewView(
		time.Hour,
		machines(1, 1),
		running,
		made(2, scheduler.Waiting, time.Hour, 0),
		made(3, scheduler.Held, time.Hour, 2*time.Hour),
	)
	p := base(0, 0)()
	p.Order = order.FIFO{}
	e, err := scheduler.Fork(v, p)
	if err != nil {
		t.Fatal(err)
	}
	// One hour remains, one hour, and for the overdue job a tenth of its two hours.
	if sum, n, _ := drain(e, 100, math.Inf(1)); n != 3 ||
		time.Duration(
			sum*float64(time.Second),
		).Round(
			time.Second,
		) != 2*time.Hour+3*time.Hour+3*time.Hour+12*time.Minute {
		t.Errorf("%d jobs take %v", n, time.Duration(sum*float64(time.Second)))
	}
}

// TestForkOfRunningAndWaitingJobs: jobs that run when the fork is made were never in its queue, and
// run beside those that were.
func TestForkOfRunningAndWaitingJobs(t *testing.T) {
	var jobs []schedulertest.Job
	for i := range int32(16) {
		made := schedulertest.Job{
			Job:   job(cluster.JobID(i), 0, time.Duration(i+1)*time.Hour, 1),
			Phase: scheduler.Waiting,
		}
		if i < 8 {
			made.Phase, made.On = scheduler.Running, cluster.Placement{{Node: 0, Index: i}}
		}
		jobs = append(jobs, made)
	}
	v := schedulertest.NewView(0, machines(1, 8), jobs...)
	p := base(0, 10*time.Minute)()
	p.Order, p.Walk, p.Backfill = order.SRTF{}, scheduler.Strict, backfill.NewEASY()
	e, err := scheduler.Fork(v, p)
	if err != nil {
		t.Fatal(err)
	}
	if _, n, _ := drain(e, 100, math.Inf(1)); n != len(jobs) || e.Now() != (8+16)*time.Hour {
		t.Errorf("%d of %d jobs are over at %v", n, len(jobs), e.Now())
	}
}

func TestTheClearlyBestIsChosen(t *testing.T) {
	long := job(0, 0, 100*time.Hour, 1)
	short := []cluster.Job{long}
	for id := cluster.JobID(1); id <= 30; id++ {
		short = append(short, job(id, time.Minute, 10*time.Minute, 1))
	}
	equal := []cluster.Job{}
	for id := range cluster.JobID(8) {
		equal = append(equal, job(id, 0, 10*time.Hour, 1))
	}
	for _, c := range []struct {
		what  string
		jobs  []cluster.Job
		of    []string
		cost  time.Duration
		taken string
	}{
		{"one long job before many short ones", short, []string{"fifo", "srtf"}, 0, "srtf"},
		{"unknown lengths, short jobs behind a long one", short, []string{"fifo", "las"}, 0, "las"},
		{"equal jobs, of which sharing helps none", equal, []string{"las", "fifo"}, time.Minute, "fifo"},
	} {
		chooser := chosen(
			t,
			base(c.cost, 5*time.Minute),
			Options{Every: 10 * time.Minute, Margin: DefaultMargin},
			candidates(t, c.of...)...)
		play(t, machines(1, 1), chooser.Policies(), c.jobs)
		first := slices.IndexFunc(
			chooser.Choices(),
			func(c Choice) bool { return c.Jobs == len(short) || c.Jobs == len(equal) },
		)
		if first < 0 || c.of[chooser.Choices()[first].Chosen] != c.taken {
			t.Errorf("%s: %+v is the choice %d", c.what, chooser.Choices()[max(0, first)], first)
		}
	}
}

// TestAdmissionIsChosen: a looser admission policy is better if more fits.
func TestAdmissionIsChosen(t *testing.T) {
	jobs := []cluster.Job{}
	for id := range cluster.JobID(16) {
		jobs = append(jobs, job(id, 0, time.Hour+time.Duration(id)*time.Minute, 1))
	}
	of := []Candidate{{"tight", order.FIFO{}, admit.Load{Threshold: 0.2}}, {"open", order.FIFO{}, nil}}
	c := chosen(t, base(0, 0), Options{Every: 30 * time.Minute}, of...)
	play(t, machines(2, 4), c.Policies(), jobs)
	if len(c.Choices()) == 0 || c.Choices()[0].Chosen != 1 {
		t.Errorf("the choices are %+v", c.Choices())
	}
}

func TestMarginKeepsWhatIsInForce(t *testing.T) {
	jobs := mix(4, 80)
	for margin, most := range map[float64]int{1: 0, 0.05: 1 << 20} {
		c := chosen(
			t,
			base(0, time.Minute),
			Options{Every: 10 * time.Minute, Margin: margin},
			candidates(t, "fifo", "srtf", "las")...)
		play(t, machines(2, 4), c.Policies(), jobs)
		changes, last := 0, 0
		for _, choice := range c.Choices() {
			best := slices.Min(choice.Means)
			if choice.Chosen != last {
				changes++
				if choice.Means[choice.Chosen] != best || best >= choice.Means[last]*(1-margin) {
					t.Errorf("%d took over from %d at %v", choice.Chosen, last, choice.Means)
				}
			} else if best < choice.Means[last]*(1-margin) {
				t.Errorf("%d stays in force at %v", last, choice.Means)
			}
			last = choice.Chosen
		}
		if changes > most || margin < 1 && changes == 0 {
			t.Errorf("with a margin of %g, %d changes", margin, changes)
		}
	}
}

// TestNeverWorseThanTheWorst checks that over whole runs, with unknown arrivals, it is never worse
// than the worst of its candidates, and usually about as good as the best.
func TestNeverWorseThanTheWorst(t *testing.T) {
	names := []string{"fifo", "srtf", "las2d"}
	b := base(20*time.Second, 5*time.Minute)
	total, best := 0.0, 0.0
	for seed := range uint64(25) {
		jobs, nodes := mix(seed, 80), machines(2, 4)
		var means []float64
		for _, one := range candidates(t, names...) {
			means = append(means, play(t, nodes, fixed(b, scheduler.Fill, one), jobs).mean(jobs))
		}
		c := chosen(t, b, Options{Every: 10 * time.Minute, Margin: DefaultMargin}, candidates(t, names...)...)
		got := play(t, nodes, c.Policies(), jobs).mean(jobs)
		if got > slices.Max(means) {
			t.Errorf("seed %d: %g s, and the candidates %v", seed, got, means)
		}
		total, best = total+got, best+slices.Min(means)
	}
	if total > 1.1*best {
		t.Errorf("jobs take %.3f of what they take under the best candidate of each trace", total/best)
	}
}

func TestTheSameEveryTime(t *testing.T) {
	jobs := mix(7, 80)
	run := func() string {
		c := chosen(
			t,
			base(5*time.Second, time.Minute),
			Options{Every: 10 * time.Minute},
			candidates(t, "fifo", "srtf", "las2d")...)
		return fmt.Sprint(play(t, machines(2, 4), c.Policies(), jobs), c.Choices())
	}
	if first, again := run(), run(); first != again {
		t.Error("two runs differ")
	}
}

type elasticOne struct{ scheduler.Allocator }

func TestIncompatibleCandidates(t *testing.T) {
	fifo := Candidate{Name: "fifo", Order: order.FIFO{}}
	for what, c := range map[string]struct {
		of    []Candidate
		alloc scheduler.Allocator
	}{
		"nothing":       {nil, nil},
		"groups":        {[]Candidate{fifo, {Name: "drf", Order: order.DRF{}}}, nil},
		"tenant queues": {[]Candidate{{Name: "quota", Order: order.FIFO{}, Admit: admit.Quota{}}}, nil},
		"twice":         {[]Candidate{fifo, fifo}, nil},
		"elastic":       {[]Candidate{fifo}, elasticOne{}},
		"none":          {[]Candidate{{Name: "none"}}, nil},
	} {
		b := func() scheduler.Policies {
			p := base(0, 0)()
			p.Allocate = c.alloc
			return p
		}
		if _, err := New(b, c.of, Options{}); !errors.Is(err, ErrCandidate) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// TestShortcutEqualsFork: if all jobs run, the shortcut gives exactly the result of a fork.
func TestShortcutEqualsFork(t *testing.T) {
	for seed := range uint64(20) {
		random := rand.New(rand.NewPCG(seed, 11))
		policies := base(3*time.Second, time.Minute)()
		policies.Order = order.LAS{}
		policies.Speeds = slow{}
		e, err := scheduler.New(machines(4, 8), policies)
		if err != nil {
			t.Fatal(err)
		}
		var events []scheduler.Event
		for id := range cluster.JobID(12) {
			j := job(id, 0, 0, 1+random.IntN(3))
			j.Estimate = time.Duration(1+random.IntN(20)) * time.Second * 7 / 3
			events = append(events, scheduler.Event{Kind: scheduler.Submitted, Facts: &j})
		}
		_, _ = e.Step(0, events)
		if _, err := e.Step(time.Duration(random.IntN(30))*time.Second, nil); err != nil { // some are overdue, some load
			t.Fatal(err)
		}
		if e.Busy() != 12 {
			t.Fatalf("%d jobs run", e.Busy())
		}
		for _, o := range []scheduler.Orderer{order.FIFO{}, order.LAS{}, order.SRTF{}} {
			policies.Order = o
			fork, err := scheduler.Fork(e, policies)
			if err != nil {
				t.Fatal(err)
			}
			sum, jobs := sumRunning(e)
			if want, ended, _ := drain(fork, 20_000, math.Inf(1)); sum != want || jobs != ended {
				t.Errorf("seed %d: %d jobs and %v s, a fork says %d and %v s", seed, jobs, sum, ended, want)
			}
		}
	}
}

// slow makes every job slower.
type slow struct{}

func (slow) Speed(j *scheduler.Job, _ cluster.Placement, _ []cluster.Node) float64 {
	return 1 / float64(j.ID()+1)
}

// TestLosersAreCutShort: stopping a losing candidate's simulation early changes no choice, and
// saves steps.
func TestLosersAreCutShort(t *testing.T) {
	saved := 0
	for seed := range uint64(12) {
		jobs, nodes := mix(seed, 60), machines(2, 4)
		for i := range jobs {
			jobs[i].Estimate = jobs[i].Length * time.Duration(1+seed%3) / 2
		}
		var whole, early string
		for _, all := range []bool{true, false} {
			c := chosen(
				t,
				base(time.Duration(seed%2)*5*time.Second, time.Minute),
				Options{Every: 10 * time.Minute, Margin: float64(seed%4) / 20, Steps: 200},
				candidates(t, "fifo", "las", "srtf", "las2d")...)
			c.uniform = c.uniform && !all
			ran := fmt.Sprint(play(t, nodes, c.Policies(), jobs))
			for _, choice := range c.Choices() {
				ran += fmt.Sprint(" ", choice.At, choice.Jobs, choice.Chosen)
				for _, mean := range choice.Means {
					if all {
						saved += int(mean)
					} else {
						saved -= int(mean)
					}
				}
			}
			if all {
				whole = ran
			} else {
				early = ran
			}
		}
		if whole != early {
			t.Errorf("seed %d:\n%s\n%s", seed, whole, early)
		}
	}
	if saved <= 0 {
		t.Error("no candidate ended early: the test shows nothing")
	}
}
