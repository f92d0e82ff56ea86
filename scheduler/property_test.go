package scheduler_test

import (
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/phos-gpu/phos/scheduler"
	"github.com/phos-gpu/phos/scheduler/admit"
	"github.com/phos-gpu/phos/scheduler/backfill"
	"github.com/phos-gpu/phos/scheduler/cluster"
	"github.com/phos-gpu/phos/scheduler/order"
	"github.com/phos-gpu/phos/scheduler/packed"
	"github.com/phos-gpu/phos/scheduler/place"
	"github.com/phos-gpu/phos/scheduler/sim"
	"github.com/phos-gpu/phos/scheduler/victims"
)

const s = time.Second

// policies returns an order by name with its usual other policies.
func policies(t *testing.T, name string, p order.Parameters) scheduler.Policies {
	t.Helper()
	o, err := order.ByName(name, p)
	if err != nil {
		t.Fatal(err)
	}
	return scheduler.Policies{Order: o, Place: place.BestFit{}, Preempt: victims.Tail{}, Quantum: 10 * s}
}

func simulate(t *testing.T, nodes []cluster.Node, p scheduler.Policies, jobs []cluster.Job) *sim.Result {
	t.Helper()
	r, err := sim.Play(t.Context(), packed.Of(jobs...), sim.Options{Nodes: nodes, Policies: p})
	if err != nil {
		t.Fatal(err)
	}
	fixed := map[cluster.JobID]bool{}
	for i := range jobs {
		fixed[jobs[i].ID] = jobs[i].Fixed
	}
	for i := range r.Jobs.All() {
		if r.Jobs.At(i).Outcome != sim.Done {
			t.Fatalf("job %d is not done", r.Jobs.At(i).ID)
		}
		if fixed[r.Jobs.At(i).ID] && r.Jobs.At(i).Preemptions > 0 {
			t.Fatalf("job %d is fixed, and was preempted", r.Jobs.At(i).ID)
		}
	}
	return r
}

func nodes(n, gpus int) []cluster.Node {
	all := make([]cluster.Node, n)
	for i := range all {
		all[i] = cluster.Node{ID: cluster.NodeID(i), GPUs: gpus}
	}
	return all
}

// crowd is jobs of several sizes that arrive slightly faster than 20 GPUs can serve them.
func crowd(seed uint64, n int) []cluster.Job {
	r := rand.New(rand.NewPCG(seed, 0))
	jobs := make([]cluster.Job, n)
	for i := range jobs {
		length := time.Duration(1+r.IntN(100)) * s
		jobs[i] = cluster.Job{
			ID: cluster.JobID(
				i,
			), Submit: time.Duration(r.IntN(5*n)) * s, Length: length, Estimate: length, GPUs: 1 << r.IntN(4),
			Priority: r.IntN(3), Fixed: r.IntN(5) == 0, User: []string{"a/x", "a/y", "b"}[r.IntN(3)],
		}
	}
	return jobs
}

// TestFileOrder: the same jobs in any order give the same result, under all policies.
func TestFileOrder(t *testing.T) {
	for _, name := range order.Names() {
		for _, with := range []func(*scheduler.Policies){
			func(*scheduler.Policies) {},
			func(p *scheduler.Policies) { p.Walk, p.Preempt, p.Backfill = scheduler.Strict, nil, backfill.NewEASY() },
			func(p *scheduler.Policies) { p.Admit, p.Round = admit.Load{Threshold: 1.2}, 30*s },
		} {
			var first *sim.Result
			for shuffle := range uint64(3) {
				p := policies(t, name, order.Parameters{Quotas: map[string]float64{"a": 10, "b": 10}})
				with(&p)
				jobs := crowd(7, 120)
				rand.New(
					rand.NewPCG(shuffle, 0),
				).Shuffle(
					len(jobs),
					func(i, k int) { jobs[i], jobs[k] = jobs[k], jobs[i] },
				)
				r := simulate(t, nodes(5, 4), p, jobs)
				if first == nil {
					first = r
				}
				if !reflect.DeepEqual(r.Jobs.Slice(), first.Jobs.Slice()) {
					t.Errorf("%s: the jobs' order in the file matters", name)
				}
			}
		}
	}
}

// TestAdmissionKeepsFIFO: earlier jobs start earlier, and if admission holds back no job that could
// run, nothing changes.
func TestAdmissionKeepsFIFO(t *testing.T) {
	for seed := range uint64(5) {
		plain := simulate(t, nodes(5, 4), policies(t, "fifo", order.Parameters{}), crowd(seed, 150))
		for _, name := range []string{"load:0.5", "load:1", "load:1.2", "load:3"} {
			a, err := admit.ByName(name)
			if err != nil {
				t.Fatal(err)
			}
			p := policies(t, "fifo", order.Parameters{})
			p.Admit = a
			r := simulate(t, nodes(5, 4), p, crowd(seed, 150))
			if name != "load:0.5" && !reflect.DeepEqual(r.Jobs.Slice(), plain.Jobs.Slice()) {
				t.Errorf("seed %d, %s: admission changes what becomes of jobs", seed, name)
			}
			sortEvents(t, r.Jobs.Slice())
		}
	}
}

func sortEvents(t *testing.T, jobs []sim.JobResult) {
	t.Helper()
	jobs = slices.Clone(jobs)
	slices.SortStableFunc(jobs, func(a, b sim.JobResult) int { return int(a.Submit - b.Submit) })
	for i := 1; i < len(jobs); i++ {
		if jobs[i].Start < jobs[i-1].Start {
			t.Errorf("job %d came at %v and starts at %v, job %d at %v and %v",
				jobs[i-1].ID, jobs[i-1].Submit, jobs[i-1].Start, jobs[i].ID, jobs[i].Submit, jobs[i].Start)
		}
	}
}

// TestShortestFirstIsBest: on one GPU, no order has a lower mean completion time than SRTF.
func TestShortestFirstIsBest(t *testing.T) {
	for seed := range uint64(10) {
		jobs := crowd(seed, 80)
		for i := range jobs {
			jobs[i].GPUs, jobs[i].Submit = 1, jobs[i].Submit*10
		}
		p := policies(t, "srtf", order.Parameters{})
		p.Quantum = 0
		best := simulate(t, nodes(1, 1), p, jobs).Summary.AvgJCT
		for _, name := range []string{"fifo", "sjf", "las", "priority", "dlas-gpu"} {
			if other := simulate(t, nodes(1, 1), policies(t, name, order.Parameters{}), jobs).Summary.AvgJCT; other < best {
				t.Errorf("seed %d: %s takes %v on average, srtf %v", seed, name, other, best)
			}
		}
	}
}

// TestAgingEndsStarvation has short jobs arrive as fast as one GPU can serve them, and a long one
// among them: without aging it waits for the last of them, with aging no longer than the bound plus
// the running job.
func TestAgingEndsStarvation(t *testing.T) {
	const short, long = 500, cluster.JobID(1000)
	jobs := []cluster.Job{{ID: long, Submit: 5 * s, Length: 60 * s, Estimate: 60 * s, GPUs: 1}}
	for i := range short {
		jobs = append(
			jobs,
			cluster.Job{
				ID:       cluster.JobID(i),
				Submit:   time.Duration(i) * 10 * s,
				Length:   10 * s,
				Estimate: 10 * s,
				GPUs:     1,
			},
		)
	}
	start := func(bound time.Duration) time.Duration {
		r := simulate(t, nodes(1, 1), policies(t, "srtf", order.Parameters{Aging: bound}), jobs)
		return r.Jobs.At(r.Jobs.Len() - 1).Start
	}
	if at := start(0); at < short*10*s {
		t.Errorf("srtf starts the long job at %v, before the last of the others", at)
	}
	const bound = 200 * s
	if at := start(bound); at > 5*s+bound+10*s {
		t.Errorf("with aging the long job starts at %v", at)
	}
}

// TestNoStarvationUnderAging bounds the wait for the first start, for all orders that support
// aging.
func TestNoStarvationUnderAging(t *testing.T) {
	const bound = 300 * s
	for _, name := range []string{"fifo", "priority", "sjf", "srtf", "las", "las2d", "srsf"} {
		p := policies(t, name, order.Parameters{Aging: bound, Preemptive: true})
		p.Walk = scheduler.Strict
		jobs := crowd(3, 400)
		work := time.Duration(0)
		for _, j := range jobs {
			work += j.Length * time.Duration(j.GPUs)
		}
		r := simulate(t, nodes(5, 4), p, jobs)
		for _, j := range r.Jobs.All() {
			// When it is old, at most all the others are older, and the cluster is at least half full while
			// it waits.
			if wait := j.Start - j.Submit; wait > bound+2*work/20+100*s {
				t.Errorf("%s: job %d waits for %v", name, j.ID, wait)
			}
		}
	}
}

// TestQueueingTheory compares waiting times with formulas for queues of single jobs on c servers:
// Erlang's for exponential lengths, Pollaczek's and Khinchine's for one server and any lengths. The
// mean over independent traces must be within four of its standard errors.
func TestQueueingTheory(t *testing.T) {
	exponential := func(r *rand.Rand) float64 { return r.ExpFloat64() }
	heavy := func(r *rand.Rand) float64 {
		if r.IntN(10) == 0 {
			return 5.5
		}
		return 0.5
	}
	tests := []struct {
		name    string
		servers int
		load    float64
		length  func(*rand.Rand) float64 // with mean 1
		square  float64                  // the mean of its square
	}{
		{"M/M/1", 1, 0.5, exponential, 2},
		{"M/M/1, busy", 1, 0.8, exponential, 2},
		{"M/M/4", 4, 0.7, exponential, 2},
		{"M/M/8", 8, 0.7, exponential, 2},
		{"M/D/1", 1, 0.7, func(*rand.Rand) float64 { return 1 }, 1},
		{"M/G/1", 1, 0.6, heavy, 0.9*0.25 + 0.1*5.5*5.5},
	}
	for _, tt := range tests {
		want := erlang(tt.servers, tt.load)
		if tt.servers == 1 {
			want = tt.load * tt.square / (2 * (1 - tt.load))
		}
		mean, deviation := waiting(t, tt.servers, tt.load, tt.length)
		if math.Abs(mean-want) > 4*deviation || deviation > want/6 {
			t.Errorf("%s: the mean wait is %.4f ± %.4f lengths, want %.4f", tt.name, mean, deviation, want)
		}
	}
}

// erlang returns the mean wait of M/M/c in mean lengths.
func erlang(servers int, load float64) float64 {
	offered := load * float64(servers)
	blocked := 1.0 // Erlang's B, by its recursion
	for c := 1; c <= servers; c++ {
		blocked = offered * blocked / (float64(c) + offered*blocked)
	}
	waits := blocked / (1 - load*(1-blocked)) // Erlang's C
	return waits / (float64(servers) * (1 - load))
}

// waiting returns the mean wait over independent traces, in mean lengths, and its standard error.
// The first jobs, which arrive at an empty cluster, do not count.
func waiting(t *testing.T, servers int, load float64, length func(*rand.Rand) float64) (mean, deviation float64) {
	t.Helper()
	const traces, jobs, first, unit = 16, 4000, 500, 1000 * s
	var sum, squares float64
	for seed := range uint64(traces) {
		r := rand.New(rand.NewPCG(seed, 99))
		at := 0.0
		all := make([]cluster.Job, jobs)
		for i := range all {
			at += r.ExpFloat64() / (load * float64(servers))
			all[i] = cluster.Job{
				ID:     cluster.JobID(i),
				Submit: time.Duration(at * float64(unit)),
				Length: time.Duration(length(r) * float64(unit)),
				GPUs:   1,
			}
		}
		result := simulate(t, nodes(1, servers), scheduler.Policies{Order: order.FIFO{}, Place: place.FirstFree{}}, all)
		wait := 0.0
		for _, j := range result.Jobs.Slice()[first:] {
			wait += (j.Start - j.Submit).Seconds() / unit.Seconds() / (jobs - first)
		}
		sum, squares = sum+wait, squares+wait*wait
	}
	mean = sum / traces
	return mean, math.Sqrt((squares/traces - mean*mean) / (traces - 1))
}
