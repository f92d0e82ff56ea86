package backfill_test

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/phos-gpu/phos/scheduler"
	"github.com/phos-gpu/phos/scheduler/cluster"
	"github.com/phos-gpu/phos/scheduler/place"
)

// fifo is the order of arrival.
type fifo struct{ unsaid }

func (fifo) Unranked() {}

// unsaid is the same order, unknown to the engine: no reservation is deferred.
type unsaid struct{}

func (unsaid) Rank(scheduler.View, *scheduler.Job) scheduler.Rank { return scheduler.Rank{} }

// orders are both.
var orders = map[string]scheduler.Orderer{"fifo": fifo{}, "unsaid": unsaid{}}

// reserver is a Backfiller with reservations that can be seen.
type reserver interface {
	scheduler.Backfiller
	ReservedFor(j *scheduler.Job) (at time.Duration, ok bool)
}

// play runs jobs, sorted by submission, through an engine, and returns when each started. after is
// called after each step.
func play(
	t testing.TB,
	nodes []cluster.Node,
	jobs []cluster.Job,
	p scheduler.Policies,
	after func(*scheduler.Engine),
) []time.Duration {
	t.Helper()
	e, err := scheduler.New(nodes, p)
	if err != nil {
		t.Fatal(err)
	}
	starts, ends := make([]time.Duration, len(jobs)), map[time.Duration][]scheduler.Event{}
	for i := range jobs {
		starts[i] = -1
		ends[jobs[i].Submit] = append(ends[jobs[i].Submit], scheduler.Event{Kind: scheduler.Submitted, Facts: &jobs[i]})
	}
	for now := time.Duration(0); len(ends) > 0; now++ {
		events, any := ends[now]
		if wake, ok := e.Wake(); !any && (!ok || wake != now) {
			continue
		}
		delete(ends, now)
		plan, err := e.Step(now, events)
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range plan.Starts {
			i := slices.IndexFunc(jobs, func(j cluster.Job) bool { return j.ID == s.Job })
			starts[i] = now
			ends[now+jobs[i].Length] = append(
				ends[now+jobs[i].Length],
				scheduler.Event{Kind: scheduler.Finished, Job: s.Job, Run: s.Run},
			)
		}
		after(e)
	}
	return starts
}

// workload returns jobs for a cluster of some GPUs, with one of three kinds of estimates.
func workload(r *rand.Rand, n, gpus int, estimates string) []cluster.Job {
	var jobs []cluster.Job
	at := 0
	for i := range n {
		at += r.IntN(6)
		length := time.Duration(1 + r.IntN(30))
		j := cluster.Job{
			ID:       cluster.JobID(i),
			Submit:   time.Duration(at),
			Length:   length,
			Estimate: length,
			GPUs:     1 + r.IntN(gpus),
			Share:    cluster.WholeGPU,
		}
		if r.IntN(2) == 0 {
			j.GPUs = 1 + r.IntN(max(1, gpus/4))
		}
		switch estimates {
		case "too long":
			j.Estimate += time.Duration(r.IntN(20))
		case "wrong":
			j.Estimate = time.Duration(1 + r.IntN(40))
		}
		jobs = append(jobs, j)
	}
	slices.SortStableFunc(jobs, func(a, b cluster.Job) int { return cmp.Compare(a.Submit, b.Submit) })
	return jobs
}

// with returns a strict walk in the order of arrival, with a Backfiller.
func with(b scheduler.Backfiller) scheduler.Policies {
	return scheduler.Policies{Order: fifo{}, Place: place.FirstFree{}, Backfill: b, Walk: scheduler.Strict}
}

func nothing(*scheduler.Engine) {}

// oneKind returns equal nodes.
func oneKind(nodes, gpus int) []cluster.Node {
	var all []cluster.Node
	for i := range nodes {
		all = append(all, cluster.Node{ID: cluster.NodeID(i), GPUs: gpus})
	}
	return all
}
