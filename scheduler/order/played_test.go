package order_test

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/phos-gpu/phos/scheduler"
	"github.com/phos-gpu/phos/scheduler/admit"
	"github.com/phos-gpu/phos/scheduler/cluster"
	"github.com/phos-gpu/phos/scheduler/order"
	"github.com/phos-gpu/phos/scheduler/packed"
	"github.com/phos-gpu/phos/scheduler/place"
	"github.com/phos-gpu/phos/scheduler/sim"
	"github.com/phos-gpu/phos/scheduler/victims"
)

// The orders in simulations with the engine.

func seconds(n int) time.Duration { return time.Duration(n) * time.Second }

// machines returns equal nodes.
func machines(nodes, gpus int) []cluster.Node {
	all := make([]cluster.Node, nodes)
	for i := range all {
		all[i] = cluster.Node{ID: cluster.NodeID(i), GPUs: gpus}
	}
	return all
}

func play(t *testing.T, jobs []cluster.Job, nodes []cluster.Node, p scheduler.Policies) *sim.Result {
	t.Helper()
	if p.Place == nil {
		p.Place = place.FirstFree{}
	}
	if p.Preempt == nil {
		p.Preempt = victims.Tail{}
	}
	result, err := sim.Play(t.Context(), packed.Of(jobs...), sim.Options{Nodes: nodes, Policies: p})
	if err != nil {
		t.Fatal(err)
	}
	for _, j := range result.Jobs.All() {
		if j.Outcome != sim.Done {
			t.Fatalf("job %d is not done", j.ID)
		}
	}
	return result
}

func named(t *testing.T, name string, p order.Parameters) scheduler.Orderer {
	t.Helper()
	p.Quotas = map[string]float64{"u0": 2, "u1": 3}
	p.Lease = cmp.Or(p.Lease, seconds(15))
	p.Limits = []time.Duration{seconds(20), seconds(60)}
	p.Lengths = []time.Duration{seconds(10), seconds(12), seconds(15), seconds(80), seconds(90)}
	o, err := order.ByName(name, p)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// trace is random jobs of whole seconds.
func trace(seed uint64, n, within, longest, widest int) []cluster.Job {
	r := rand.New(rand.NewPCG(seed, 0))
	jobs := make([]cluster.Job, n)
	for i := range jobs {
		length := seconds(1 + r.IntN(longest))
		jobs[i] = cluster.Job{
			ID: cluster.JobID(
				i,
			), Submit: seconds(r.IntN(within + 1)), Length: length, Estimate: length, GPUs: 1 + r.IntN(widest),
			Share: cluster.WholeGPU, User: fmt.Sprint("u", r.IntN(3)), Priority: r.IntN(3),
		}
	}
	return jobs
}

func total(r *sim.Result) (sum time.Duration) {
	for _, j := range r.Jobs.All() {
		sum += j.Finish - j.Submit
	}
	return sum
}

type price struct{ save, load time.Duration }

func (p price) Save(*scheduler.Job) time.Duration                    { return p.save }
func (p price) Load(*scheduler.Job, cluster.Placement) time.Duration { return p.load }
func (price) Lost(*scheduler.Job, time.Duration) time.Duration       { return 0 }

// TestAllOrders: under each order, with each choice of victims, with and without costs, all jobs
// complete; the order of the file's lines does not matter; orders without preemption preempt no
// job.
func TestAllOrders(t *testing.T) {
	stops := map[string]bool{}
	for _, name := range order.Names() {
		for i, chooser := range victims.Names() {
			for _, costs := range []price{{}, {seconds(3), seconds(5)}} {
				jobs := trace(uint64(i), 40, 140, 80, 6)
				run := func() *sim.Result {
					choose, err := victims.ByName(chooser, costs)
					if err != nil {
						t.Fatal(err)
					}
					p := scheduler.Policies{
						Order:   named(t, name, order.Parameters{}),
						Preempt: choose,
						Costs:   costs,
						Quantum: seconds(10),
					}
					return play(t, jobs, machines(2, 4), p)
				}
				first := run()
				slices.Reverse(jobs)
				if again := run(); !reflect.DeepEqual(first.Jobs.Slice(), again.Jobs.Slice()) {
					t.Errorf("%s with %s: the jobs in another order come to another result", name, chooser)
				}
				stops[name] = stops[name] || first.Summary.Preemptions > 0
			}
		}
	}
	for _, name := range order.Names() {
		p, ok := named(t, name, order.Parameters{}).(scheduler.Preemptive)
		if want := ok && p.Preempts(); stops[name] != want {
			t.Errorf("%s stops jobs: %v, want %v", name, stops[name], want)
		}
	}
}

// TestSRTFPlayed: the engine decides at every event, and is as good as the best of all schedules.
func TestSRTFPlayed(t *testing.T) {
	for seed := range uint64(60) {
		jobs := trace(seed, 6, 10, 6, 1)
		if got, want := total(play(t, jobs, machines(1, 1), scheduler.Policies{Order: order.SRTF{}})),
			best(jobs); got != want {
			t.Fatalf("%v: SRTF takes %v, the best schedule %v", jobs, got, want)
		}
	}
}

// best returns the least sum of completion times on one GPU, over all choices at whole seconds.
func best(jobs []cluster.Job) time.Duration {
	type state struct {
		now  int
		left [6]int8
	}
	memory := map[state]int{}
	var from func(s state) int
	from = func(s state) int {
		if known, ok := memory[s]; ok {
			return known
		}
		least, present, open := math.MaxInt, 0, false
		for i, job := range jobs {
			if s.left[i] == 0 {
				continue
			}
			open = true
			if job.Submit <= seconds(s.now) {
				present++
				then := s
				then.now++
				then.left[i]--
				least = min(least, from(then))
			}
		}
		switch {
		case !open:
			least = 0
		case present == 0:
			s.now++
			return from(s)
		}
		memory[s] = least + present
		return least + present
	}
	var s state
	for i, job := range jobs {
		s.left[i] = int8(job.Length / time.Second)
	}
	return seconds(from(s))
}

// TestSRTFNeverWorseThanFIFO on one GPU, over many traces.
func TestSRTFNeverWorseThanFIFO(t *testing.T) {
	for seed := range uint64(100) {
		jobs := trace(seed, 40, 400, 30, 1)
		srtf, fifo := play(
			t,
			jobs,
			machines(1, 1),
			scheduler.Policies{Order: order.SRTF{}},
		), play(
			t,
			jobs,
			machines(1, 1),
			scheduler.Policies{Order: order.FIFO{}},
		)
		if total(srtf) > total(fifo) {
			t.Errorf("trace %d: SRTF takes %v, FIFO %v", seed, total(srtf), total(fifo))
		}
	}
}

// TestKnowledgePays has mostly short and few long lengths, on one GPU at a high load: an order that
// knows the distribution is no worse than one that knows nothing, and one that knows each length is
// no worse than that.
func TestKnowledgePays(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	lengths := []time.Duration{
		seconds(1),
		seconds(1),
		seconds(1),
		seconds(1),
		seconds(2),
		seconds(2),
		seconds(3),
		seconds(50),
	}
	var jobs []cluster.Job
	now := time.Duration(0)
	for i := range 1500 {
		now += time.Duration(r.ExpFloat64() * 9 * 1e9)
		length := lengths[r.IntN(len(lengths))]
		jobs = append(
			jobs,
			cluster.Job{
				ID:       cluster.JobID(i),
				Submit:   now,
				Length:   length,
				Estimate: length,
				GPUs:     1,
				Share:    cluster.WholeGPU,
			},
		)
	}
	took := func(o scheduler.Orderer) time.Duration {
		return total(
			play(t, jobs, machines(1, 1), scheduler.Policies{Order: o, Quantum: 250 * time.Millisecond}),
		) / 1500
	}
	srtf, gittins, las, fifo := took(
		order.SRTF{},
	), took(
		order.NewGittins(lengths, false),
	), took(
		order.LAS{},
	), took(
		order.FIFO{},
	)
	t.Logf("mean: SRTF %v, Gittins %v, LAS %v, FIFO %v", srtf, gittins, las, fifo)
	if !(srtf <= gittins && gittins <= las && las < fifo) {
		t.Errorf("mean: SRTF %v, Gittins %v, LAS %v, FIFO %v", srtf, gittins, las, fifo)
	}
}

// TestThemisIsFair: summed over many traces, the job that is treated worst is treated better than
// under other orders, relative to its time alone.
func TestThemisIsFair(t *testing.T) {
	worst := map[string]float64{}
	orders := []string{"themis", "fifo", "sjf", "srtf", "las"}
	for seed := range uint64(12) {
		jobs := trace(seed, 40, 300, 60, 1)
		for i := range jobs { // a lease must be short compared to a job
			jobs[i].Length, jobs[i].Estimate, jobs[i].Submit = 20*jobs[i].Length, 20*jobs[i].Length, 20*jobs[i].Submit
		}
		for _, name := range orders {
			o := named(t, name, order.Parameters{Lease: seconds(5)})
			rho := 0.0
			for i, j := range play(t, jobs, machines(1, 4), scheduler.Policies{Order: o, Quantum: seconds(5)}).Jobs.All() {
				rho = max(rho, float64(j.JCT())/float64(jobs[i].Length))
			}
			worst[name] += rho / 12
		}
	}
	t.Logf("mean of the worst finish-time fairness: %v", worst)
	for _, name := range orders[1:] {
		if worst[name] < worst["themis"] {
			t.Errorf(
				"the worst finish-time fairness is %v under themis, %v under %s",
				worst["themis"],
				worst[name],
				name,
			)
		}
	}
}

// TestDLASPlayed has Tiresias's three queues at 10 and 20 GPU-seconds, and four GPUs.
func TestDLASPlayed(t *testing.T) {
	jobs := []cluster.Job{
		{ID: 0, Length: seconds(20), GPUs: 4}, // 10 GPU-seconds after 2.5 s, 20 after 5 s
		{ID: 1, Submit: seconds(1), Length: seconds(2), GPUs: 2},
		{ID: 2, Submit: seconds(3), Length: seconds(8), GPUs: 2},
		{ID: 3, Submit: seconds(3), Length: seconds(1), GPUs: 4},
	}
	got := play(
		t,
		jobs,
		machines(1, 4),
		scheduler.Policies{Order: order.DLAS{Limits: []time.Duration{seconds(10), seconds(20)}, TwoD: true}},
	)
	// Job 0 is demoted at 2.5 s and preempted by 1, which runs until 4.5 s. Job 2 joins it at 3 s,
	// because it arrived before 3, which needs all four, and has 10 GPU-seconds at 8 s: 3 runs from 8
	// s to 9 s. Then 0, which started first, is first in the second queue: it runs from 9 s to 11.5 s
	// and is demoted again, and 2 gets the rest of its 6 GPU-seconds in the second queue until 14.5 s.
	// Job 0 is last, with 15 s to go.
	for i, want := range []time.Duration{
		29500 * time.Millisecond, 4500 * time.Millisecond, 14500 * time.Millisecond,
		seconds(9),
	} {
		if got.Jobs.At(i).Finish != want {
			t.Errorf("job %d ends at %v, want %v", i, got.Jobs.At(i).Finish, want)
		}
	}
}

// TestQuotaReclaims has eight GPUs, half of them a's and half b's. While b is absent a borrows;
// when b arrives it gets its own at once, from a's last jobs, and no job is preempted after that
// although both want more.
func TestQuotaReclaims(t *testing.T) {
	var jobs []cluster.Job
	for i := range 20 {
		job := cluster.Job{
			ID:     cluster.JobID(i),
			Length: seconds(1000),
			GPUs:   1,
			Share:  cluster.WholeGPU,
			User:   "a",
			Submit: seconds(i),
		}
		if i >= 10 {
			job.User, job.Submit = "b", seconds(100)
		}
		jobs = append(jobs, job)
	}
	o := order.Quota{GPUs: map[string]float64{"a": 4, "b": 4}}
	got := play(t, jobs, machines(2, 4), scheduler.Policies{Order: o})
	if got.Summary.Preemptions != 4 {
		t.Errorf("%d jobs are stopped", got.Summary.Preemptions)
	}
	for _, j := range got.Jobs.All() {
		stopped := j.ID >= 4 && j.ID < 8
		if (j.Preemptions > 0) != stopped {
			t.Errorf("job %d is stopped %d times", j.ID, j.Preemptions)
		}
		if j.ID >= 10 && j.ID < 14 && j.Start != seconds(100) {
			t.Errorf("b's job %d starts at %v", j.ID, j.Start)
		}
	}
}

// TestQuotaBounds: an idle cluster of eight does not give organisation x more than five GPUs, nor
// its team a more than two; smaller jobs and those of others overtake a job that is too wide for
// the rest.
func TestQuotaBounds(t *testing.T) {
	jobs := []cluster.Job{
		{ID: 0, User: "x/a", GPUs: 2},
		{ID: 1, User: "x/a", GPUs: 1, Submit: seconds(1)}, // no room in a until 0 has ended
		{ID: 2, User: "x/a", GPUs: 1, Submit: seconds(2), Share: 500},
		{ID: 3, User: "x/b", GPUs: 4, Submit: seconds(3)}, // no room in x
		{ID: 4, User: "x/b", GPUs: 2, Submit: seconds(4)},
		{ID: 5, User: "y", GPUs: 3, Submit: seconds(5)},
	}
	for i := range jobs {
		jobs[i].Length = seconds(100)
	}
	p := scheduler.Policies{
		Order: order.Quota{GPUs: map[string]float64{"x": 5, "y": 3}},
		Caps:  map[string]int{"x": 5, "x/a": 2},
	}
	got := play(t, jobs, machines(1, 8), p)
	// At 100 s x holds two: 1 and 2 start. Four and one and a half are more than five: 3 starts when
	// they have ended.
	for i, want := range []int{0, 100, 100, 200, 4, 5} {
		if got.Jobs.At(i).Start != seconds(want) {
			t.Errorf("job %d starts at %v, want %v", i, got.Jobs.At(i).Start, seconds(want))
		}
	}
}

// TestQuotaOfTeams has eight GPUs of two organisations. Team a of x arrives late, to its own two,
// which team b of x has borrowed together with all that y left idle. What y needs it takes first
// from b, whose organisation is over its own; then a also takes from b, and not from y.
func TestQuotaOfTeams(t *testing.T) {
	var jobs []cluster.Job
	add := func(user string, at, n int) {
		for range n {
			jobs = append(
				jobs,
				cluster.Job{
					ID:     cluster.JobID(len(jobs)),
					User:   user,
					Submit: seconds(at),
					Length: seconds(500),
					GPUs:   1,
				},
			)
		}
	}
	add("x/b", 0, 8)
	add("y", 10, 4)
	add("x/a", 20, 2)
	o := order.Quota{GPUs: map[string]float64{"x": 4, "x/a": 2, "x/b": 2, "y": 4}}
	got := play(t, jobs, machines(1, 8), scheduler.Policies{Order: o})
	for _, j := range got.Jobs.All() {
		want, stops := 0, 0
		switch {
		case j.ID >= 12:
			want = 20
		case j.ID >= 8:
			want = 10
		case j.ID >= 2:
			stops = 1
		}
		if j.Start != seconds(want) || j.Preemptions != stops {
			t.Errorf(
				"job %d of %s starts at %v and is stopped %d times, want %v and %d",
				j.ID,
				j.User,
				j.Start,
				j.Preemptions,
				seconds(want),
				stops,
			)
		}
	}
}

// TestAgingPlayed bounds waiting in the engine, where SRTF alone does not.
func TestAgingPlayed(t *testing.T) {
	jobs := []cluster.Job{{ID: 0, Length: seconds(300), Estimate: seconds(300), GPUs: 4}}
	for i := range 900 {
		jobs = append(
			jobs,
			cluster.Job{
				ID:       cluster.JobID(i + 1),
				Submit:   seconds(i),
				Length:   seconds(4),
				Estimate: seconds(4),
				GPUs:     1 + i%2,
			},
		)
	}
	waits := func(p order.Parameters) time.Duration {
		got := play(t, jobs, machines(1, 4), scheduler.Policies{Order: named(t, "srtf", p)})
		return got.Jobs.At(0).Start
	}
	if start := waits(order.Parameters{}); start < seconds(900) {
		t.Errorf("without aging the large job starts at %v", start)
	}
	if start := waits(order.Parameters{Aging: seconds(60)}); start != seconds(60) {
		t.Errorf("with aging the large job starts at %v", start)
	}
}

// TestAdmissionKeepsFIFO: under any admission policy, FIFO starts the same jobs at the same times.
func TestAdmissionKeepsFIFO(t *testing.T) {
	for seed := range uint64(20) {
		jobs := trace(seed, 60, 300, 60, 4)
		free := play(t, jobs, machines(2, 4), scheduler.Policies{Order: order.FIFO{}})
		for _, name := range []string{"all", "load:1", "load:1.2", "load:5"} {
			gate, err := admit.ByName(name)
			if err != nil {
				t.Fatal(err)
			}
			if got := play(t, jobs, machines(2, 4), scheduler.Policies{Order: order.FIFO{}, Admit: gate}); !reflect.DeepEqual(
				got.Jobs.Slice(),
				free.Jobs.Slice(),
			) {
				t.Errorf("trace %d: %s changes what FIFO does", seed, name)
			}
		}
	}
}

// TestTenantsAdmittedSideBySide: a's flood does not block b's admission.
func TestTenantsAdmittedSideBySide(t *testing.T) {
	var jobs []cluster.Job
	for i := range 30 {
		jobs = append(jobs, cluster.Job{ID: cluster.JobID(i), Length: seconds(100), GPUs: 1, User: "a"})
	}
	jobs = append(jobs, cluster.Job{ID: 30, Submit: seconds(1), Length: seconds(100), GPUs: 1, User: "b"})
	got := play(t, jobs, machines(1, 4), scheduler.Policies{Order: order.FIFO{}, Admit: admit.Quota{Part: 0.5}})
	if start := got.Jobs.At(30).Start; start != seconds(1) {
		t.Errorf("b's job starts at %v", start)
	}
	if end := slices.MaxFunc(got.Jobs.Slice(), func(a, b sim.JobResult) int {
		return cmp.Compare(a.Finish,
			b.Finish)
	}).Finish; end != seconds(
		1500,
	) {
		t.Errorf("a's jobs, two at a time, end at %v", end)
	}
}

// byModel makes the cost of a stop depend on the model's name.
type byModel struct{}

func (byModel) Save(j *scheduler.Job) time.Duration {
	if j.Model() == "heavy" {
		return seconds(20)
	}
	return seconds(1)
}
func (byModel) Load(*scheduler.Job, cluster.Placement) time.Duration { return 0 }
func (byModel) Lost(*scheduler.Job, time.Duration) time.Duration     { return 0 }

// TestVictimsPlayed: an urgent job of one GPU arrives at two busy ones, the heavy one last. The
// cases say which job is preempted, and when the urgent one then starts.
func TestVictimsPlayed(t *testing.T) {
	jobs := []cluster.Job{
		{ID: 0, Length: seconds(100), Estimate: seconds(100), GPUs: 1, Model: "light"},
		{ID: 1, Length: seconds(15), Estimate: seconds(15), GPUs: 1, Model: "heavy"},
		{ID: 2, Submit: seconds(10), Length: seconds(50), Estimate: seconds(50), GPUs: 1, Model: "light", Priority: 1},
	}
	for _, c := range []struct {
		name    string
		stopped []int
		end     time.Duration
	}{
		{"tail", []int{0, 1, 0}, seconds(10 + 20 + 50)},
		{"cheapest", []int{1, 0, 0}, seconds(10 + 1 + 50)},
		// Saving the heavy job takes 20 s, and it ends by itself in 5 s.
		{"tail-if-worth", []int{0, 0, 0}, seconds(15 + 50)},
		{"cheapest-if-worth", []int{1, 0, 0}, seconds(10 + 1 + 50)},
	} {
		choose, err := victims.ByName(c.name, byModel{})
		if err != nil {
			t.Fatal(err)
		}
		p := scheduler.Policies{Order: order.Priority{Preemptive: true}, Preempt: choose, Costs: byModel{}}
		got := play(t, jobs, machines(1, 2), p)
		for i, want := range c.stopped {
			if got.Jobs.At(i).Preemptions != want {
				t.Errorf("%s stops job %d %d times, want %d", c.name, i, got.Jobs.At(i).Preemptions, want)
			}
		}
		if got.Jobs.At(2).Finish != c.end {
			t.Errorf("%s: the urgent job ends at %v, want %v", c.name, got.Jobs.At(2).Finish, c.end)
		}
	}
}
