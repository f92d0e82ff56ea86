package victims

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/phos-gpu/phos/scheduler"
	"github.com/phos-gpu/phos/scheduler/cluster"
	"github.com/phos-gpu/phos/scheduler/schedulertest"
)

// prices are the costs of a stop by the job's number, all of it lost work.
type prices map[cluster.JobID]time.Duration

func (prices) Save(*scheduler.Job) time.Duration                      { return 0 }
func (prices) Load(*scheduler.Job, cluster.Placement) time.Duration   { return 0 }
func (p prices) Lost(j *scheduler.Job, _ time.Duration) time.Duration { return p[j.ID()] }

// newView returns a view with jobs that run on the given numbers of GPUs, numbered from 0, and a
// waiting job numbered 100.
func newView(want int, ends []time.Duration, gpus ...int) (*schedulertest.View, scheduler.Demand) {
	var jobs []schedulertest.Job
	at := 0
	for i, n := range gpus {
		made := schedulertest.Job{Job: cluster.Job{ID: cluster.JobID(i), GPUs: n}, Phase: scheduler.Running}
		if ends != nil {
			made.Estimate = ends[i]
		}
		for range n {
			made.On = append(made.On, cluster.GPU{Node: cluster.NodeID(at / 8), Index: int32(at % 8)})
			at++
		}
		jobs = append(jobs, made)
	}
	var nodes []cluster.Node
	for id := range (at + 7) / 8 {
		nodes = append(nodes, cluster.Node{ID: cluster.NodeID(id), GPUs: 8})
	}
	jobs = append(jobs, schedulertest.Job{Job: cluster.Job{ID: 100, GPUs: want}, Phase: scheduler.Waiting})
	v := schedulertest.NewView(10*time.Second, nodes, jobs...)
	return v, scheduler.Demand{Job: v.Job(100), GPUs: want}
}

// lastFirst returns the running jobs, highest number first.
func lastFirst(v *schedulertest.View) []*scheduler.Job {
	jobs := slices.Collect(v.Running())
	slices.SortFunc(jobs, func(a, b *scheduler.Job) int { return int(b.ID() - a.ID()) })
	return jobs
}

func numbers(jobs []*scheduler.Job) (ids []int) {
	for _, j := range jobs {
		ids = append(ids, int(j.ID()))
	}
	return ids
}

func TestTail(t *testing.T) {
	for want, victims := range map[int][]int{
		1: {3}, 2: {3, 2}, 3: {3, 2, 1}, 5: {3, 2, 1}, 6: {3, 2, 1, 0},
		99: {3, 2, 1, 0},
	} {
		v, need := newView(want, nil, 2, 3, 1, 1)
		if got := numbers((Tail{}).Choose(v, need, slices.Values(lastFirst(v)))); !slices.Equal(got, victims) {
			t.Errorf("for %d GPUs: %v, want %v", want, got, victims)
		}
	}
}

// TestCheapest tries all sets of victims.
func TestCheapest(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	for range 500 {
		gpus, costs := make([]int, 1+r.IntN(9)), prices{}
		for i := range gpus {
			gpus[i] = 1 + r.IntN(4)
			costs[cluster.JobID(i)] = time.Duration(r.IntN(60)) * time.Second
		}
		v, need := newView(1+r.IntN(10), nil, gpus...)
		got := (Cheapest{Costs: costs}).Choose(v, need, slices.Values(lastFirst(v)))
		freed, cost := 0, 0.0
		for _, j := range got {
			freed, cost = freed+j.GPUs(), cost+costs[j.ID()].Seconds()*float64(j.GPUs())
		}
		least := leastCost(gpus, costs, need.GPUs)
		switch {
		case math.IsInf(least, 0) && len(got) != len(gpus):
			t.Fatalf("%v do not free %d: chosen are %v, expected all", gpus, need.GPUs, numbers(got))
		case !math.IsInf(least, 0) && (freed < need.GPUs || math.Abs(cost-least) > 1e-9):
			t.Fatalf(
				"%v at %v for %d: %v free %d for %v, want %v",
				gpus,
				costs,
				need.GPUs,
				numbers(got),
				freed,
				cost,
				least,
			)
		}
	}
}

func leastCost(gpus []int, costs prices, need int) float64 {
	least := math.Inf(+1)
	for set := range 1 << len(gpus) {
		freed, cost := 0, 0.0
		for i, n := range gpus {
			if set>>i&1 == 1 {
				freed, cost = freed+n, cost+costs[cluster.JobID(i)].Seconds()*float64(n)
			}
		}
		if freed >= need {
			least = min(least, cost)
		}
	}
	return least
}

// TestCheapestOfEquals takes the jobs that rank last, and respects Depth.
func TestCheapestOfEquals(t *testing.T) {
	v, need := newView(2, nil, 1, 1, 1, 1)
	if got := numbers((Cheapest{}).Choose(v, need, slices.Values(lastFirst(v)))); !slices.Equal(got, []int{2, 3}) {
		t.Errorf("without costs: %v", got)
	}
	costs := prices{0: 0, 1: 0, 2: time.Second, 3: time.Second}
	if got := numbers((Cheapest{Costs: costs, Depth: 2}).Choose(v, need, slices.Values(lastFirst(v)))); !slices.Equal(
		got,
		[]int{3, 2},
	) {
		t.Errorf("two deep: %v", got)
	}
}

// TestWorth is at 10 s, with two jobs of two GPUs each.
func TestWorth(t *testing.T) {
	for _, c := range []struct {
		ends []time.Duration
		cost time.Duration
		want int
		stop bool
	}{
		// One ends in 20 s: two GPUs would wait that long, 40 GPU-seconds. Stopping one costs 2 x 19 s,
		// or 2 x 20 s.
		{[]time.Duration{30 * time.Second, time.Hour}, 19 * time.Second, 2, true},
		{[]time.Duration{30 * time.Second, time.Hour}, 20 * time.Second, 2, false},
		// Both must stop: 4 x 40 s are saved, and 2 x 2 x 39 s or 2 x 2 x 40 s lost.
		{[]time.Duration{30 * time.Second, 50 * time.Second}, 39 * time.Second, 4, true},
		{[]time.Duration{30 * time.Second, 50 * time.Second}, 40 * time.Second, 4, false},
		// Both are overdue, for 5 s and 3 s, and have run for 10 s: they are expected to run for another
		// 10 s.
		{[]time.Duration{5 * time.Second, 7 * time.Second}, 9 * time.Second, 2, true},
		{[]time.Duration{5 * time.Second, 7 * time.Second}, 10 * time.Second, 2, false},
	} {
		for _, name := range []string{"tail-if-worth", "cheapest-if-worth"} {
			policy, err := ByName(name, prices{0: c.cost, 1: c.cost})
			if err != nil {
				t.Fatal(err)
			}
			v, need := newView(c.want, c.ends, 2, 2)
			if got := policy.Choose(v, need, slices.Values(lastFirst(v))); (len(got) > 0) != c.stop {
				t.Errorf("%s: %+v stops %v", name, c, numbers(got))
			}
		}
	}
}

func TestNames(t *testing.T) {
	for _, name := range Names() {
		if policy, err := ByName(name, nil); err != nil || policy == nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, name := range []string{"", "head", "tail-", "-if-worth"} {
		if _, err := ByName(name, nil); !errors.Is(err, ErrUnknown) {
			t.Errorf("%q: %v", name, err)
		}
	}
}
