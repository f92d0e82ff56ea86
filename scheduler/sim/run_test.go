package sim_test

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/phos-gpu/phos/scheduler"
	"github.com/phos-gpu/phos/scheduler/cluster"
	"github.com/phos-gpu/phos/scheduler/order"
	"github.com/phos-gpu/phos/scheduler/packed"
	"github.com/phos-gpu/phos/scheduler/sim"
	"github.com/phos-gpu/phos/scheduler/victims"
)

const s = time.Second

// counting places jobs on any free GPUs.
type counting struct{}

func (counting) Place(v scheduler.View, _ *scheduler.Job, n int) (on cluster.Placement, ok bool) {
	for _, node := range v.Nodes() {
		on = v.Free().Pick(on, node.ID, min(n-len(on), v.Free().On(node.ID)))
		if len(on) == n {
			return on, true
		}
	}
	return nil, false
}

func oneNode(gpus int) []cluster.Node { return []cluster.Node{{GPUs: gpus}} }

// random returns jobs of whole seconds, so that an independent simulator can go second by second.
func random(seed uint64, n, gpus int, every time.Duration) (jobs []cluster.Job) {
	draw := rand.New(rand.NewPCG(seed, 0))
	var now time.Duration
	for i := range n {
		now += time.Duration(draw.Int64N(int64(2*every/s))) * s
		length := time.Duration(1+draw.Int64N(200)) * s
		jobs = append(
			jobs,
			cluster.Job{
				ID:       cluster.JobID(i),
				Submit:   now,
				Length:   length,
				Estimate: length,
				GPUs:     1 + draw.IntN(gpus),
				Share:    cluster.WholeGPU,
			},
		)
	}
	return jobs
}

// life is the reference's state of a job.
type life struct {
	cluster.Job
	start, finish, ran, since time.Duration
	running                   bool
	preemptions               int
}

// reference plays jobs second by second as the help text describes: jobs of one GPU each, or FIFO.
func reference(jobs []cluster.Job, gpus int, order string, quantum time.Duration) []*life {
	var lives []*life
	for _, j := range jobs {
		lives = append(lives, &life{Job: j, start: -1, finish: -1})
	}
	left := len(lives)
	for now := time.Duration(0); left > 0; now += s {
		var active []*life
		for _, l := range lives {
			if l.running && l.ran == l.Length {
				l.running, l.finish = false, now
				left--
			}
			if l.Submit <= now && l.finish < 0 {
				active = append(active, l)
			}
		}
		if order == "srtf" {
			greedy(active, gpus, now)
		} else {
			choose(active, gpus, order, quantum, now)
		}
		for _, l := range active {
			if l.running {
				l.ran += s
			}
		}
	}
	return lives
}

// greedy is SRTF: GPUs are allocated again, shortest first, and jobs that do not fit wait.
func greedy(active []*life, free int, now time.Duration) {
	slices.SortStableFunc(active, func(a, b *life) int {
		// Of equal jobs, the running one will be shorter a moment later.
		return cmp.Or(
			cmp.Compare(a.Length-a.ran, b.Length-b.ran),
			-compare(a.running, b.running),
			cmp.Compare(a.Submit, b.Submit),
			cmp.Compare(a.ID, b.ID),
		)
	})
	for _, l := range active {
		fits := l.GPUs <= free
		if fits {
			free -= l.GPUs
		}
		switch {
		case fits && l.start < 0:
			l.start = now
		case !fits && l.running:
			l.preemptions++
		}
		l.running = fits
	}
}

func compare(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return +1
	}
	return -1
}

// choose runs jobs from now on.
func choose(active []*life, gpus int, order string, quantum, now time.Duration) {
	key := func(l *life) time.Duration {
		switch order {
		case "las":
			return l.ran
		}
		return 0
	}
	slices.SortStableFunc(active, func(a, b *life) int {
		return cmp.Or(cmp.Compare(key(a), key(b)), cmp.Compare(a.Submit, b.Submit), cmp.Compare(a.ID, b.ID))
	})
	free := gpus
	for _, l := range active {
		if l.running {
			free -= l.GPUs
		}
	}
	// The first waiting job is served, until one cannot be.
	for at := 0; at < len(active); at++ {
		l := active[at]
		if l.running {
			continue
		}
		for last := len(active) - 1; order != "fifo" && free < l.GPUs && last >= 0; last-- {
			v := active[last]
			if v.running && now >= v.since+quantum && (key(v) > key(l) || order == "las" && key(v) == key(l)) {
				v.running = false
				v.preemptions++
				free += v.GPUs
				at = -1
			}
		}
		if free < l.GPUs {
			return
		}
		free -= l.GPUs
		l.running, l.since = true, now
		if l.start < 0 {
			l.start = now
		}
	}
}

// TestTextbook compares FIFO with jobs of several GPUs, and SRTF and LAS with jobs of one, with the
// reference, job by job.
func TestTextbook(t *testing.T) {
	for _, test := range []struct {
		order     string
		gpus, cap int
		quantum   time.Duration
	}{
		{"fifo", 1, 4, 0},
		{"fifo", 4, 4, 0},
		{"srtf", 1, 1, 0},
		{"srtf", 1, 4, 0},
		{"srtf", 4, 4, 0},
		{"srtf", 3, 8, 0},
		{"las", 1, 1, 60 * s},
		{"las", 1, 3, 60 * s},
		{"las", 1, 3, 7 * s},
	} {
		for seed := range uint64(8) {
			jobs := random(seed, 120, test.gpus, time.Duration(int64(105*s)*int64(1+test.gpus)/2/int64(test.cap)))
			ranked, err := order.ByName(test.order, order.Parameters{})
			if err != nil {
				t.Fatal(err)
			}
			got, err := sim.Play(
				context.Background(),
				packed.Of(jobs...),
				sim.Options{Nodes: oneNode(test.cap), Policies: scheduler.Policies{
					Order: ranked, Place: counting{}, Preempt: victims.Tail{}, Quantum: test.quantum,
				}},
			)
			if err != nil {
				t.Fatal(err)
			}
			name := fmt.Sprintf("%s of %d, quantum %v, seed %d", test.order, test.cap, test.quantum, seed)
			for i, want := range reference(jobs, test.cap, test.order, test.quantum) {
				j := got.Jobs.At(i)
				// The engine serves one waiting job after the other, so a job of several GPUs may be preempted
				// and resume at one time.
				counts := test.order == "srtf" && test.gpus > 1 || j.Preemptions == want.preemptions
				if j.ID != want.ID || j.Start != want.start || j.Finish != want.finish || !counts {
					t.Fatalf(
						"%s: job %d from %v to %v with %d preemptions, want %v to %v with %d",
						name,
						j.ID,
						j.Start,
						j.Finish,
						j.Preemptions,
						want.start,
						want.finish,
						want.preemptions,
					)
				}
			}
		}
	}
}

// TestNoUselessPreemption has a short job of two GPUs preempt the one job that makes room, and not
// the longer one that would not.
func TestNoUselessPreemption(t *testing.T) {
	jobs := []cluster.Job{
		{ID: 0, Length: 100 * s, Estimate: 100 * s, GPUs: 2},
		{ID: 1, Length: 200 * s, Estimate: 200 * s, GPUs: 1},
		{ID: 2, Submit: 5 * s, Length: 10 * s, Estimate: 10 * s, GPUs: 2},
	}
	got, err := sim.Play(context.Background(), packed.Of(jobs...), sim.Options{Nodes: oneNode(3), Policies: scheduler.Policies{
		Order: order.SRTF{}, Place: counting{}, Preempt: victims.Tail{},
	}})
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []struct {
		finish      time.Duration
		preemptions int
	}{{110 * s, 1}, {200 * s, 0}, {15 * s, 0}} {
		if j := got.Jobs.At(i); j.Finish != want.finish || j.Preemptions != want.preemptions {
			t.Errorf("job %d ended at %v after %d preemptions, want %v", i, j.Finish, j.Preemptions, want)
		}
	}
}

// TestFaults loses a node, and jobs, at known times.
func TestFaults(t *testing.T) {
	jobs := []cluster.Job{
		{ID: 0, Length: 10 * s, Estimate: 10 * s, GPUs: 1},
		{ID: 1, Length: 4 * s, Estimate: 4 * s, GPUs: 1},
	}
	nodes := []cluster.Node{{ID: 0, GPUs: 1}, {ID: 1, GPUs: 1}}
	play := func(f sim.Faults) *sim.Result {
		got, err := sim.Play(
			context.Background(),
			packed.Of(jobs...),
			sim.Options{Nodes: nodes, Faults: f, Policies: scheduler.Policies{
				Order: order.FIFO{}, Place: counting{}, Retries: 3,
			}},
		)
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	// Job 0 loses 3 s of work with node 0, which never returns, and starts again on node 1 once job 1
	// is done.
	got := play(sim.Faults{Nodes: []sim.NodeEvent{{At: 3 * s, Node: 0, Kind: scheduler.NodeDown}}})
	if j := got.Jobs.At(0); j.Finish != 14*s || j.Failures != 1 || j.Start != 0 {
		t.Errorf("%+v", j)
	}
	// 3 s of one GPU, 4 of the other, 10 more of the remaining one; of 2 GPUs for 3 s and one for 11.
	if use := got.Summary.GPUUtilisation; use != 1 {
		t.Errorf("utilisation %v, want 1", use)
	}
	// With both nodes gone for good, nothing more happens, and the simulation ends.
	got = play(
		sim.Faults{
			Nodes: []sim.NodeEvent{
				{At: 3 * s, Node: 0, Kind: scheduler.NodeDown},
				{At: 3 * s, Node: 1, Kind: scheduler.NodeDown},
			},
		},
	)
	if got.Summary.Unfinished != 2 || got.Summary.Partial {
		t.Errorf("%+v", got.Summary)
	}
	// A job that fails after a nanosecond on average is lost after the fourth attempt.
	got = play(sim.Faults{Seed: 1, JobMTBF: 1})
	if got.Summary.Lost != 2 || got.Summary.Failures != 8 || got.Jobs.At(0).Outcome != sim.Lost {
		t.Errorf("%+v", got.Summary)
	}
	// The same seed gives the same failures.
	random := sim.Faults{Seed: 5, JobMTBF: 6 * s, NodeMTBF: 5 * s, NodeRepair: 3 * s}
	if a, b := play(random), play(random); !reflect.DeepEqual(a.Summary, b.Summary) || a.Summary.Failures == 0 {
		t.Errorf("%+v and %+v", a.Summary, b.Summary)
	}
}
