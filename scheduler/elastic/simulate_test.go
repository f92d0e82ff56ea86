package elastic

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/phos-gpu/phos/scheduler"
	"github.com/phos-gpu/phos/scheduler/cluster"
	"github.com/phos-gpu/phos/scheduler/order"
	"github.com/phos-gpu/phos/scheduler/place"
	"github.com/phos-gpu/phos/scheduler/throughput"
)

// price is the cost of a preemption.
type price time.Duration

func (p price) Save(*scheduler.Job) time.Duration                    { return time.Duration(p) }
func (p price) Load(*scheduler.Job, cluster.Placement) time.Duration { return time.Duration(p) }
func (p price) Lost(*scheduler.Job, time.Duration) time.Duration     { return 0 }

// run is a simulation of jobs.
type run struct {
	t       *testing.T
	nodes   []cluster.Node
	jobs    []cluster.Job // by submission, with exact estimates
	events  map[time.Duration][]scheduler.Event
	ends    map[cluster.JobID]time.Duration
	widths  map[cluster.JobID]map[int]bool // numbers of GPUs that each job had
	stops   int
	each    func(e *scheduler.Engine)
	working time.Duration // GPU-time in use
}

// play runs them in virtual time. Only a clock is needed: the engine knows when its runs are due.
func (r *run) play(p scheduler.Policies) *run {
	r.t.Helper()
	e, err := scheduler.New(r.nodes, p)
	if err != nil {
		r.t.Fatal(err)
	}
	r.ends, r.widths = map[cluster.JobID]time.Duration{}, map[cluster.JobID]map[int]bool{}
	now, used := time.Duration(0), 0
	for steps := 0; len(r.jobs) > 0 || e.Live() > 0; steps++ {
		at, ok := r.next(e)
		if !ok || steps > 100_000 {
			r.t.Fatalf("at %v, %d jobs wait and nothing happens", now, e.Live())
		}
		r.working += time.Duration(used) * (at - now)
		now = at
		plan, err := e.Step(now, r.due(e, now))
		if err != nil {
			r.t.Fatalf("at %v: %v", now, err)
		}
		r.stops += len(plan.Stops)
		used = 0
		for j := range e.Running() {
			used += len(j.Placement())
			if r.widths[j.ID()] == nil {
				r.widths[j.ID()] = map[int]bool{}
			}
			r.widths[j.ID()][len(j.Placement())] = true
		}
		if r.each != nil {
			r.each(e)
		}
	}
	return r
}

func (r *run) next(e *scheduler.Engine) (at time.Duration, ok bool) {
	consider := func(t time.Duration) {
		if !ok || t < at {
			at, ok = t, true
		}
	}
	if len(r.jobs) > 0 {
		consider(r.jobs[0].Submit)
	}
	for t := range r.events {
		consider(t)
	}
	for j := range e.Running() {
		consider(j.Due())
		break
	}
	if t, wants := e.Wake(); wants {
		consider(t)
	}
	return at, ok
}

func (r *run) due(e *scheduler.Engine, now time.Duration) []scheduler.Event {
	var events []scheduler.Event
	for j := range e.Running() {
		if j.Due() > now {
			break
		}
		events = append(events, scheduler.Event{Kind: scheduler.Finished, Job: j.ID()})
		r.ends[j.ID()] = now
	}
	for len(r.jobs) > 0 && r.jobs[0].Submit == now {
		events = append(events, scheduler.Event{Kind: scheduler.Submitted, Facts: &r.jobs[0]})
		r.jobs = r.jobs[1:]
	}
	events = append(events, r.events[now]...)
	delete(r.events, now)
	return events
}

func (r *run) mean(jobs []cluster.Job) float64 {
	sum := 0.0
	for _, j := range jobs {
		if r.ends[j.ID] == 0 {
			r.t.Fatalf("job %d never ended", j.ID)
		}
		sum += (r.ends[j.ID] - j.Submit).Seconds()
	}
	return sum / float64(len(jobs))
}

func policies(t *testing.T, name string, cost time.Duration) scheduler.Policies {
	t.Helper()
	p := scheduler.Policies{Order: order.FIFO{}, Place: place.BestFit{}, Round: time.Minute, Costs: price(cost)}
	if name == "fifo" {
		p.Speeds = throughput.NewSpeeds(throughput.NewTable())
		return p
	}
	var err error
	if p.Allocate, p.Speeds, err = ByName(name, Parameters{Seed: 3, Pack: true}); err != nil {
		t.Fatal(err)
	}
	return p
}

// trace returns elastic jobs of several models.
func trace(seed uint64, n int) []cluster.Job {
	random := rand.New(rand.NewPCG(seed, 8))
	models := []string{"resnet18", "resnet50", "bert", "transformer", "deepspeech2", "what"}
	var jobs []cluster.Job
	at := time.Duration(0)
	for id := range cluster.JobID(n) {
		at += time.Duration(random.IntN(900)) * time.Second
		length := time.Duration(300+random.IntN(5000)) * time.Second
		j := cluster.Job{
			ID:       id,
			Submit:   at,
			Length:   length,
			Estimate: length,
			GPUs:     1 + random.IntN(3),
			Model:    models[random.IntN(len(models))],
		}
		if random.IntN(4) > 0 {
			j.MinGPUs, j.MaxGPUs = 1, 8
		}
		jobs = append(jobs, j)
	}
	return jobs
}

// TestSimulatedToTheEnd: every policy completes every job, with costs and without, and the engine
// reports no invalid answers.
func TestSimulatedToTheEnd(t *testing.T) {
	mixed := append(
		machines(2, 4, "V100"),
		cluster.Node{ID: 2, GPUs: 4, GPUType: "A100"},
		cluster.Node{ID: 3, GPUs: 2, GPUType: "K80"},
	)
	for _, name := range Names() {
		for seed, cost := range []time.Duration{0, 10 * time.Second, 90 * time.Second} {
			jobs := trace(uint64(seed), 25)
			first := (&run{t: t, nodes: mixed, jobs: jobs}).play(policies(t, name, cost)).mean(jobs)
			again := (&run{t: t, nodes: mixed, jobs: jobs}).play(policies(t, name, cost)).mean(jobs)
			if first != again {
				t.Errorf("%s: %g s, and again %g s", name, first, again)
			}
		}
	}
}

// TestElasticJobsAreFaster: an elastic policy that uses more GPUs while there are free ones must
// beat one that cannot.
func TestElasticJobsAreFaster(t *testing.T) {
	nodes := machines(4, 4, "V100")
	for seed := range uint64(3) {
		jobs := trace(seed, 30)
		rigid := (&run{t: t, nodes: nodes, jobs: jobs}).play(policies(t, "fifo", 0)).mean(jobs)
		for _, name := range []string{"optimus", "pollux"} {
			r := (&run{t: t, nodes: nodes, jobs: jobs}).play(policies(t, name, 0))
			if got := r.mean(jobs); got > 0.9*rigid {
				t.Errorf("%s, seed %d: jobs take %g s, and %g s without elasticity", name, seed, got, rigid)
			}
			for i := range jobs {
				for width := range r.widths[jobs[i].ID] {
					fewest, most := jobs[i].GPUs, jobs[i].GPUs
					if jobs[i].MaxGPUs > 0 {
						fewest, most = jobs[i].MinGPUs, jobs[i].MaxGPUs
					}
					if width < fewest || width > most {
						t.Errorf("%s: job %d had %d GPUs", name, jobs[i].ID, width)
					}
				}
			}
		}
	}
}

// TestSimulatedSpeedIsTheTables: alone on a cluster, a job runs at the table's speed, to the
// nanosecond.
func TestSimulatedSpeedIsTheTables(t *testing.T) {
	table := throughput.NewTable()
	m := table.Model("resnet50")
	for _, name := range []string{"optimus", "gavel"} {
		j := cluster.Job{ID: 1, Length: time.Hour, Estimate: time.Hour, GPUs: 2, Model: "resnet50"}
		if name == "optimus" {
			j.MinGPUs, j.MaxGPUs = 1, 4
		}
		r := (&run{t: t, nodes: machines(1, 4, "A100"), jobs: []cluster.Job{j}}).play(policies(t, name, 0))
		gpus := 2
		if name == "optimus" {
			gpus = 4
		}
		if want := scheduler.Span(time.Hour, m.Rate(1, gpus)*m.On("A100", 1, gpus)/m.Rate(1, 2)); r.ends[1] != want {
			t.Errorf("%s: the job took %v, want %v", name, r.ends[1], want)
		}
	}
}

// TestGavelInASimulation has the paper's three jobs on one V100 and one K80: until the first of
// them ends, each has its due share of time.
func TestGavelInASimulation(t *testing.T) {
	nodes := append(machines(1, 1, "V100"), cluster.Node{ID: 1, GPUs: 1, GPUType: "K80"})
	var jobs []cluster.Job
	for id := range cluster.JobID(3) {
		jobs = append(
			jobs,
			cluster.Job{ID: id, Length: 10 * time.Hour, Estimate: 10 * time.Hour, GPUs: 1, Model: fmt.Sprint("m", id)},
		)
	}
	p := policies(t, "gavel", 0)
	table := paperTable(t)
	p.Allocate, p.Speeds = NewGavel(table), throughput.NewSpeeds(table)
	var rounds float64
	had := map[cluster.JobID][2]float64{}
	r := &run{t: t, nodes: nodes, jobs: jobs}
	r.each = func(e *scheduler.Engine) {
		if e.Live() < 3 {
			return
		}
		rounds++
		for j := range e.Running() {
			count := had[j.ID()]
			count[j.Placement()[0].Node]++
			had[j.ID()] = count
		}
	}
	r.play(p)
	for id, want := range [][2]float64{{0.4545, 0}, {0.4545, 0.0909}, {0.0909, 0.9091}} {
		for node := range want {
			if got := had[cluster.JobID(id)][node] / rounds; math.Abs(got-want[node]) > 0.02 {
				t.Errorf("job %d had %.3f of its time on node %d, want %.3f", id, got, node, want[node])
			}
		}
	}
	if rounds < 300 {
		t.Errorf("the first job ended after %g rounds", rounds)
	}
}

// TestSimulatedWithFailingNodes: nodes that go down or are drained are not used, and the others
// are.
func TestSimulatedWithFailingNodes(t *testing.T) {
	for _, name := range Names() {
		jobs := trace(5, 20)
		r := &run{t: t, nodes: machines(3, 4, "V100"), jobs: jobs}
		r.events = map[time.Duration][]scheduler.Event{
			30*time.Minute + time.Second: {{Kind: scheduler.NodeDown, Node: 1}},
			50 * time.Minute:             {{Kind: scheduler.Drained, Node: 0}},
			3 * time.Hour:                {{Kind: scheduler.NodeUp, Node: 1}, {Kind: scheduler.NodeUp, Node: 0}},
		}
		r.each = func(e *scheduler.Engine) {
			for j := range e.Running() {
				for _, gpu := range j.Placement() {
					if e.Free().Closed(gpu.Node) {
						t.Fatalf("%s: job %d runs on a closed node", name, j.ID())
					}
				}
			}
			if avail := newSupply(e, new(jobLists).read(e)); avail.total != int(e.Capacity().GPUs) {
				t.Fatalf("%s: there are %d GPUs, and %g open", name, avail.total, e.Capacity().GPUs)
			}
		}
		r.play(policies(t, name, 5*time.Second)).mean(jobs)
	}
}

// TestPolluxWithAQuantum: jobs that are not preemptible yet block what Pollux wants; the engine
// does what is possible.
func TestPolluxWithAQuantum(t *testing.T) {
	jobs := trace(6, 25)
	p := policies(t, "pollux", 20*time.Second)
	p.Quantum = 10 * time.Minute
	(&run{t: t, nodes: machines(3, 4, ""), jobs: jobs}).play(p).mean(jobs)
}

func TestUnknownNameIsAnError(t *testing.T) {
	if _, _, err := ByName("", Parameters{}); !errors.Is(err, ErrUnknown) {
		t.Error(err)
	}
}
