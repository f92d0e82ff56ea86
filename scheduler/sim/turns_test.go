package sim_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/phos-gpu/phos/scheduler"
	"github.com/phos-gpu/phos/scheduler/cluster"
	"github.com/phos-gpu/phos/scheduler/eventlog"
	"github.com/phos-gpu/phos/scheduler/order"
	"github.com/phos-gpu/phos/scheduler/packed"
	"github.com/phos-gpu/phos/scheduler/place"
	"github.com/phos-gpu/phos/scheduler/sim"
	"github.com/phos-gpu/phos/scheduler/victims"
)

// TestTurns compares random simulations in which jobs take turns with ones by an engine that walks
// through its queue every time: it does not know that the Placer is greedy. All files must be the
// same.
func TestTurns(t *testing.T) {
	traces := uint64(300)
	if testing.Short() {
		traces = 60
	}
	turns := 0
	for seed := range traces {
		o, jobs := turning(seed)
		want := filesOf(t, jobs, o, true)
		if got := filesOf(t, jobs, o, false); got != want {
			t.Fatalf("seed %d: with turns:\n%.2000s\nwithout:\n%.2000s", seed, got, want)
		}
		turns += bytes.Count([]byte(want), []byte("for-job"))
	}
	if turns < 100*int(traces) {
		t.Errorf("%d preemptions are too few to compare", turns)
	}
}

// turning returns jobs that ask for more GPUs than there are, and how to simulate them.
func turning(seed uint64) (o sim.Options, jobs []cluster.Job) {
	draw := rand.New(rand.NewPCG(seed, 0))
	for i := range 1 + draw.IntN(5) {
		o.Nodes = append(o.Nodes, cluster.Node{ID: cluster.NodeID(i), GPUs: 1 + draw.IntN(8)})
	}
	o.Policies = scheduler.Policies{
		Order: order.LAS{}, Place: place.FirstFree{}, Preempt: victims.Tail{}, Retries: 3,
		Quantum: []time.Duration{time.Millisecond, 10 * s, time.Minute}[draw.IntN(3)] + time.Duration(draw.Int64N(3)),
	}
	if draw.IntN(3) == 0 {
		o.Policies.Place = place.BestFit{}
	}
	if draw.IntN(4) == 0 {
		o.Policies.Order = order.LAS2D{}
	}
	if draw.IntN(4) == 0 {
		o.Faults = sim.Faults{Seed: seed, JobMTBF: time.Hour, NodeMTBF: 10 * time.Hour, NodeRepair: time.Hour}
	}
	if o.Policies.Quantum < s {
		return o, demanding(draw, 20, 2*s)
	}
	return o, demanding(draw, 60, time.Hour)
}

// demanding returns jobs of all sizes, some of them at equal times and of equal lengths.
func demanding(draw *rand.Rand, n int, longest time.Duration) (jobs []cluster.Job) {
	var now time.Duration
	for i := range n {
		if draw.IntN(3) > 0 {
			now += time.Duration(draw.Int64N(int64(longest / 4)))
		}
		j := cluster.Job{
			ID: cluster.JobID(i), Submit: now, Length: time.Duration(1 + draw.Int64N(int64(longest))), GPUs: 1 << draw.IntN(4),
		}
		if draw.IntN(8) == 0 {
			j.Length = longest / 2
		}
		if draw.IntN(40) == 0 {
			j.GPUs, j.Share = 1, 500
		}
		j.Estimate = j.Length
		jobs = append(jobs, j)
	}
	return jobs
}

// filesOf returns the summary, jobs.csv and the log of events of a simulation.
func filesOf(t *testing.T, jobs []cluster.Job, o sim.Options, hidden bool) string {
	t.Helper()
	if hidden {
		o.Policies.Place = struct{ scheduler.Placer }{o.Policies.Place}
	}
	gpus := 0
	for _, node := range o.Nodes {
		gpus += node.GPUs
	}
	jobs = append([]cluster.Job(nil), jobs...)
	for i := range jobs {
		jobs[i].GPUs = min(jobs[i].GPUs, gpus)
	}
	var log, files bytes.Buffer
	writer, err := eventlog.NewWriter(&log, eventlog.Header{Nodes: o.Nodes})
	if err != nil {
		t.Fatal(err)
	}
	o.Events = writer
	r, err := sim.Play(context.Background(), packed.Of(jobs...), o)
	if err != nil {
		t.Fatal(err)
	}
	summary, err := json.Marshal(r.Summary)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprintf(&files, "%s\n", summary)
	if err := r.JobsCSV(&files); err != nil {
		t.Fatal(err)
	}
	if err := writer.Flush(); err != nil {
		t.Fatal(err)
	}
	return files.String() + log.String()
}

// TestTurnsOfManyShapes is TestTurns with more models than a word has bits: the engine cannot tell
// all of them apart.
func TestTurnsOfManyShapes(t *testing.T) {
	const toldApart = 63
	for seed := range uint64(100) {
		draw := rand.New(rand.NewPCG(seed, 5))
		o := sim.Options{Nodes: []cluster.Node{{GPUs: 4 + draw.IntN(5)}}, Policies: scheduler.Policies{
			Order: order.LAS{}, Place: place.FirstFree{}, Preempt: victims.Tail{}, Quantum: 10 * s,
		}}
		var jobs []cluster.Job
		add := func(at, length time.Duration, model int) {
			jobs = append(jobs, cluster.Job{
				ID: cluster.JobID(len(jobs)), Submit: at, Length: length, Estimate: length, GPUs: 1 + model%4,
				Model: fmt.Sprint("model ", model),
			})
		}
		for model := range toldApart {
			add(time.Duration(model)*s, s/10, model)
		}
		for i := range 2 + draw.IntN(4) {
			add(time.Hour, 10*time.Minute+time.Duration(draw.IntN(100))*s, toldApart+i)
		}
		for range 2 + draw.IntN(6) {
			add(time.Hour+3*s, 5*time.Minute+time.Duration(draw.IntN(100))*s, draw.IntN(toldApart))
		}
		if got, want := filesOf(t, jobs, o, false), filesOf(t, jobs, o, true); got != want {
			t.Fatalf("seed %d: with turns:\n%.2000s\nwithout:\n%.2000s", seed, got, want)
		}
	}
}
