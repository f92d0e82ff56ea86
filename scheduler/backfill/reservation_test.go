package backfill_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/phos-gpu/phos/scheduler"
	"github.com/phos-gpu/phos/scheduler/backfill"
	"github.com/phos-gpu/phos/scheduler/cluster"
	"github.com/phos-gpu/phos/scheduler/place"
)

// twoTypes is a cluster with two types of GPUs, and jobs for one of them each.
func twoTypes(r *rand.Rand, n int) ([]cluster.Node, []cluster.Job) {
	nodes := oneKind(4, 4)
	for i := range nodes {
		nodes[i].GPUType = []string{"A", "A", "B", "B"}[i]
	}
	jobs := workload(r, n, 8, "right")
	for i := range jobs {
		jobs[i].GPUType = []string{"A", "B"}[r.IntN(2)]
	}
	return nodes, jobs
}

// tooLong is the same with estimates that are up to five times too long.
func tooLong(r *rand.Rand, n int) ([]cluster.Node, []cluster.Job) {
	nodes, jobs := twoTypes(r, n)
	for i := range jobs {
		jobs[i].Estimate = time.Duration(float64(jobs[i].Length) * (1 + 4*r.Float64()))
	}
	return nodes, jobs
}

// overlapping is a cluster of several types and memory sizes, and jobs for it: some for one type,
// some for any, some for shares of GPUs.
func overlapping(r *rand.Rand, n int) ([]cluster.Node, []cluster.Job) {
	nodes := oneKind(4, 4)
	for i := range nodes {
		nodes[i].GPUType = []string{"A", "A", "B", "B"}[i]
		nodes[i].GPUMemoryBytes = []int64{16, 80, 80, 80}[i]
	}
	jobs := workload(r, n, 8, "right")
	for i := range jobs {
		j := &jobs[i]
		switch r.IntN(6) {
		case 0:
			j.GPUType = "A"
		case 1:
			j.GPUType = "B"
		case 2:
			j.GPUMemoryBytes = 40
		case 3:
			j.GPUs, j.Share = 1, 250*(1+r.IntN(3))
		}
	}
	return nodes, jobs
}

// TestReservationsAreKept: unless a run takes longer than its estimate, no job starts later than
// any of its reservations, and none moves back. EASY's first reservation holds with exact
// estimates, even if jobs want overlapping sets of GPUs, or shares.
func TestReservationsAreKept(t *testing.T) {
	for _, tt := range []struct {
		name  string
		depth int
		make  func(*rand.Rand, int) ([]cluster.Node, []cluster.Job)
	}{
		{"one of one of two types", 1, twoTypes},
		{"three of one of two types", 3, twoTypes},
		{"all of one of two types", 0, twoTypes},
		{"all, estimates too long", 0, tooLong},
		{"five, estimates too long", 5, tooLong},
		{"one of overlapping sets", 1, overlapping},
	} {
		t.Run(tt.name, func(t *testing.T) {
			kept := 0
			for seed := range uint64(60) {
				nodes, jobs := tt.make(rand.New(rand.NewPCG(seed, 4)), 60)
				kept += keeps(t, nodes, jobs, backfill.NewConservative(tt.depth))
				if t.Failed() {
					t.Fatalf("seed %d", seed)
				}
			}
			if kept < 500 {
				t.Errorf("only %d reservations", kept)
			}
		})
	}
}

// TestReservationsAreKeptInRounds: if the engine decides every so often, reservations are for these
// times, and none of them moves back, though runs end between them.
func TestReservationsAreKeptInRounds(t *testing.T) {
	kept := 0
	for seed := range uint64(120) {
		r := rand.New(rand.NewPCG(seed, 8))
		nodes, jobs := tooLong(r, 60)
		if seed%2 == 0 {
			nodes, jobs = twoTypes(r, 60)
		}
		depth := []int{0, 0, 5}[seed%3]
		kept += keepsInRounds(t, nodes, jobs, backfill.NewConservative(depth), time.Duration(2+r.IntN(12)))
	}
	if kept < 1000 {
		t.Errorf("only %d reservations were made", kept)
	}
}

// keeps counts kept reservations, and reports broken ones.
func keeps(t *testing.T, nodes []cluster.Node, jobs []cluster.Job, b reserver) (kept int) {
	t.Helper()
	return keepsInRounds(t, nodes, jobs, b, 0)
}

// keepsInRounds is keeps for an engine that decides every so often.
func keepsInRounds(
	t *testing.T,
	nodes []cluster.Node,
	jobs []cluster.Job,
	b reserver,
	round time.Duration,
) (kept int) {
	t.Helper()
	reserved, p := map[cluster.JobID]time.Duration{}, with(b)
	p.Round = round
	starts := play(t, nodes, jobs, p, func(e *scheduler.Engine) {
		for j := range e.Waiting() {
			if at, ok := b.ReservedFor(j); ok {
				if before, known := reserved[j.ID()]; known && at > before {
					t.Errorf("job %d was reserved at %d and then at %d", j.ID(), before, at)
				}
				reserved[j.ID()] = at
			}
		}
	})
	for i, at := range starts {
		if when, ok := reserved[jobs[i].ID]; ok && at > when {
			t.Errorf("job %d started at %d, reserved at %d", jobs[i].ID, at, when)
		} else if ok {
			kept++
		}
	}
	return kept
}

// TestJobsBehindDoNotMatter: with conservative backfill and exact estimates, each job starts when
// it would without the jobs behind it.
func TestJobsBehindDoNotMatter(t *testing.T) {
	for seed := range uint64(8) {
		r := rand.New(rand.NewPCG(seed, 5))
		nodes := oneKind(2, 4)
		jobs := workload(r, 40, 8, "right")
		all := play(t, nodes, jobs, with(backfill.NewConservative(0)), nothing)
		for n := 1; n < len(jobs); n++ {
			alone := play(t, nodes, jobs[:n], with(backfill.NewConservative(0)), nothing)
			if all[n-1] != alone[n-1] {
				t.Fatalf(
					"seed %d: job %d starts at %d, and at %d without the jobs behind it",
					seed,
					n-1,
					all[n-1],
					alone[n-1],
				)
			}
		}
	}
}

// TestTheFirstIsNotDelayed: with EASY and exact estimates, the first waiting job starts no later
// than without the jobs behind it.
func TestTheFirstIsNotDelayed(t *testing.T) {
	for seed := range uint64(20) {
		nodes := oneKind(2, 4)
		jobs := workload(rand.New(rand.NewPCG(seed, 6)), 40, 8, "right")
		first := map[cluster.JobID]time.Duration{}
		b := backfill.NewEASY()
		starts := play(t, nodes, jobs, with(b), func(e *scheduler.Engine) {
			for j := range e.Waiting() {
				if _, ok := first[j.ID()]; !ok {
					first[j.ID()] = soonest(e, j)
				}
				return
			}
		})
		for id, at := range first {
			if starts[id] > at {
				t.Errorf("seed %d: job %d could have started at %d, did at %d", seed, id, at, starts[id])
			}
		}
	}
}

// soonest returns when a job could start if only the current runs ended.
func soonest(e *scheduler.Engine, j *scheduler.Job) time.Duration {
	free := e.Free().Whole("")
	for r := range e.Running() {
		if free += r.GPUs(); free >= j.GPUs() {
			return r.Due()
		}
	}
	return -1
}

func TestDeviations(t *testing.T) {
	nodes := oneKind(2, 4)
	e, err := scheduler.New(
		nodes,
		scheduler.Policies{Order: fifo{}, Place: place.FirstFree{}, Backfill: backfill.NewConservative(0)},
	)
	if err != nil {
		t.Fatal(err)
	}
	job := func(id cluster.JobID, gpus int, long time.Duration) scheduler.Event {
		return scheduler.Event{Kind: scheduler.Submitted, Facts: &cluster.Job{ID: id, GPUs: gpus, Estimate: long}}
	}
	for _, step := range []struct {
		name   string
		at     time.Duration
		events []scheduler.Event
		starts string
	}{
		{
			"two run, one waits for both, one for nothing", 0,
			[]scheduler.Event{job(1, 4, 100), job(2, 4, 50), job(3, 8, 10), job(4, 4, 60)},
			"[1 2]",
		},
		{"another one waits", 10, []scheduler.Event{job(5, 4, 51)}, "[]"},
		{
			"a run ends early: a job that ends in time starts", 20,
			[]scheduler.Event{{Kind: scheduler.Finished, Job: 2}},
			"[4]",
		},
		{"a run is overdue: no job starts", 85, nil, "[]"},
		{
			"a node is lost with the run on it: the large job cannot start, but others can", 90,
			[]scheduler.Event{{Kind: scheduler.NodeDown, Node: 1}},
			"[]",
		},
		{"the other run ends", 101, []scheduler.Event{{Kind: scheduler.Finished, Job: 1}}, "[4]"},
		{
			"the node comes back: one ends before the large job begins", 110,
			[]scheduler.Event{{Kind: scheduler.NodeUp, Node: 1}},
			"[5]",
		},
		{"one is withdrawn", 115, []scheduler.Event{{Kind: scheduler.Withdrawn, Job: 3}}, "[]"},
	} {
		plan, err := e.Step(step.at, step.events)
		if err != nil {
			t.Fatalf("%s: %v", step.name, err)
		}
		var started []cluster.JobID
		for _, s := range plan.Starts {
			started = append(started, s.Job)
		}
		if got := fmt.Sprint(started); got != step.starts {
			t.Errorf("%s: %s, want %s", step.name, got, step.starts)
		}
	}
}

// TestWithdrawnJobsReleaseReservations: reservations behind a withdrawn job are computed again.
func TestWithdrawnJobsReleaseReservations(t *testing.T) {
	b := backfill.NewConservative(0)
	e, err := scheduler.New(oneKind(2, 4), scheduler.Policies{Order: fifo{}, Place: place.FirstFree{}, Backfill: b})
	if err != nil {
		t.Fatal(err)
	}
	job := func(id cluster.JobID, gpus int, long time.Duration) scheduler.Event {
		return scheduler.Event{Kind: scheduler.Submitted, Facts: &cluster.Job{ID: id, GPUs: gpus, Estimate: long}}
	}
	reserved := func(want ...time.Duration) {
		t.Helper()
		var got []time.Duration
		for j := range e.Waiting() {
			at, _ := b.ReservedFor(j)
			got = append(got, at)
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("reserved at %v, want %v", got, want)
		}
	}
	if _, err := e.Step(0, []scheduler.Event{job(1, 4, 100), job(2, 8, 50), job(3, 8, 10), job(4, 4, 140)}); err != nil {
		t.Fatal(err)
	}
	reserved(100, 150, 160)
	if _, err := e.Step(20, []scheduler.Event{{Kind: scheduler.Withdrawn, Job: 2}}); err != nil {
		t.Fatal(err)
	}
	reserved(100, 110)
}

// TestRefusedByThePlacement: a job with enough free GPUs that its Placer refuses keeps as many from
// the jobs behind it for as long as it waits.
func TestRefusedByThePlacement(t *testing.T) {
	e, err := scheduler.New(
		oneKind(2, 4),
		scheduler.Policies{Order: fifo{}, Place: place.Skew{}, Backfill: backfill.NewEASY()},
	)
	if err != nil {
		t.Fatal(err)
	}
	job := func(id cluster.JobID, gpus int, long time.Duration, model string) scheduler.Event {
		return scheduler.Event{
			Kind:  scheduler.Submitted,
			Facts: &cluster.Job{ID: id, GPUs: gpus, Estimate: long, Model: model},
		}
	}
	for _, step := range []struct {
		name   string
		at     time.Duration
		events []scheduler.Event
		starts string
	}{
		{"each node has one GPU left", 0, []scheduler.Event{job(1, 3, 1000, "vgg16"), job(2, 3, 1000, "vgg16")}, "[1 2]"},
		{"two for a job that wants them on one node", 1, []scheduler.Event{job(3, 2, 10, "vgg16")}, "[]"},
		{"they are kept", 5, []scheduler.Event{job(4, 1, 500, "")}, "[]"},
		{"still, though it would be done by now", 20, []scheduler.Event{job(5, 1, 500, "")}, "[]"},
		{"until it gets others", 30, []scheduler.Event{{Kind: scheduler.Finished, Job: 1}}, "[3 4 5]"},
	} {
		plan, err := e.Step(step.at, step.events)
		if err != nil {
			t.Fatal(err)
		}
		var started []cluster.JobID
		for _, s := range plan.Starts {
			started = append(started, s.Job)
		}
		if got := fmt.Sprint(started); got != step.starts {
			t.Errorf("%s: %s, want %s", step.name, got, step.starts)
		}
	}
}

func TestByName(t *testing.T) {
	for _, name := range append(backfill.Names(), "conservative:20") {
		if b, err := backfill.ByName(name); err != nil || (b == nil) != (name == "none") {
			t.Errorf("%q: %v, %v", name, b, err)
		}
	}
	for _, name := range []string{"", "eesy", "conservative:0", "conservative:x", "easy:2"} {
		if _, err := backfill.ByName(name); err == nil {
			t.Errorf("%q is no backfill", name)
		} else if !strings.Contains(err.Error(), "backfill") {
			t.Error(err)
		}
	}
}
