package elastic

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/phos-gpu/phos/scheduler"
	"github.com/phos-gpu/phos/scheduler/cluster"
	"github.com/phos-gpu/phos/scheduler/schedulertest"
	"github.com/phos-gpu/phos/scheduler/throughput"
)

// cheapest returns the least sum of remaining times over all allocations, by trying all.
func cheapest(claims []*claim, total int, typed map[string]int) float64 {
	if len(claims) == 0 {
		return 0
	}
	c, best := claims[0], math.Inf(1)
	for gpus := c.fewest; gpus <= min(c.most, total); gpus++ {
		if c.gpuType != "" {
			if gpus > typed[c.gpuType] {
				break
			}
			typed[c.gpuType] -= gpus
		}
		best = min(best, c.remainingOn(gpus)+cheapest(claims[1:], total-gpus, typed))
		if c.gpuType != "" {
			typed[c.gpuType] += gpus
		}
	}
	return best
}

func TestOptimusIsTheBestThereIs(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for trial := range 300 {
		var claims []*claim
		typed := map[string]int{"A": 3 + random.IntN(4), "B": 3 + random.IntN(4)}
		needed, total := map[string]int{}, typed["A"]+typed["B"]
		for range 1 + random.IntN(4) {
			c := &claim{
				fewest: 1,
				work:   random.Float64() * 100,
				curve:  Curve{random.Float64(), random.Float64() / 2, random.Float64() / 50},
			}
			c.most = c.fewest + random.IntN(8)
			c.job = schedulertest.NewView(0, nil, schedulertest.Job{Job: cluster.Job{ID: cluster.JobID(len(claims))}}).Held()[0]
			c.gpuType = []string{"", "", "A", "B"}[random.IntN(4)]
			needed[c.gpuType]++
			claims = append(claims, c)
		}
		if needed["A"] > typed["A"] || needed["B"] > typed["B"] || len(claims) > total {
			continue
		}
		want := cheapest(claims, total, typed)
		giveOut(claims, &supply{total: total, byType: typed})
		got := 0.0
		for _, c := range claims {
			got += c.remainingOn(c.gpus)
		}
		// The greedy stops when no job gains; trying all reaches the same sum.
		if math.Abs(got-want) > 1e-9*want {
			t.Fatalf("trial %d: the jobs take %g s, and %g s can be had", trial, got, want)
		}
	}
}

// elasticJob asks for 1 GPU and runs on up to most.
func elasticJob(id cluster.JobID, model string, most int, length time.Duration) schedulertest.Job {
	return schedulertest.Job{
		Phase: scheduler.Waiting,
		Job:   cluster.Job{ID: id, GPUs: 1, MinGPUs: 1, MaxGPUs: most, Model: model, Length: length, Estimate: length},
	}
}

func machines(n, gpus int, gpuType string) []cluster.Node {
	nodes := make([]cluster.Node, n)
	for i := range nodes {
		nodes[i] = cluster.Node{ID: cluster.NodeID(i), GPUs: gpus, GPUType: gpuType}
	}
	return nodes
}

func given(v scheduler.View, a scheduler.Allocator) map[cluster.JobID]int {
	out := map[cluster.JobID]int{}
	for _, a := range a.Allocate(v) {
		out[a.Job.ID()] = a.GPUs
	}
	return out
}

func TestOptimusGivesWhereItHelps(t *testing.T) {
	o := NewOptimus(throughput.NewTable())
	// A single job gets what it can use; a longer one gets more than a shorter one; the shortest are
	// first if there are too few GPUs.
	v := schedulertest.NewView(0, machines(1, 8, "V100"), elasticJob(1, "resnet50", 8, time.Hour))
	if got := given(v, o); got[1] != 8 {
		t.Errorf("alone, the job has %d of 8 GPUs", got[1])
	}
	v = schedulertest.NewView(
		0,
		machines(1, 8, "V100"),
		elasticJob(1, "resnet50", 8, time.Hour),
		elasticJob(2, "resnet50", 8, 10*time.Hour),
	)
	if got := given(v, o); got[1]+got[2] != 8 || got[2] <= got[1] {
		t.Errorf("the job of 1 h has %d GPUs, that of 10 h %d", got[1], got[2])
	}
	v = schedulertest.NewView(
		0,
		machines(1, 2, "V100"),
		elasticJob(1, "bert", 8, 3*time.Hour),
		elasticJob(2, "bert", 8, time.Hour),
		elasticJob(3, "bert", 8, 2*time.Hour),
	)
	if got := given(v, o); got[1] != 0 || got[2] != 1 || got[3] != 1 {
		t.Errorf("2 GPUs for three jobs: %v", got)
	}
	// A job that communicates more than it computes does not gain from many GPUs.
	v = schedulertest.NewView(
		0,
		machines(8, 8, "V100"),
		elasticJob(1, "vgg16", 64, 10*time.Hour),
		elasticJob(2, "resnet50", 64, 10*time.Hour),
	)
	if got := given(v, o); got[1] >= got[2] || got[1] == 0 {
		t.Errorf("vgg16 has %d GPUs, resnet50 %d", got[1], got[2])
	}
}

// scene returns a random view: some nodes, some jobs, some of them running.
func scene(random *rand.Rand) *schedulertest.View {
	types := []string{"V100", "H100", "K80"}[:1+random.IntN(3)]
	var nodes []cluster.Node
	for i := range 1 + random.IntN(6) {
		nodes = append(
			nodes,
			cluster.Node{
				ID:             cluster.NodeID(i),
				GPUs:           1 + random.IntN(8),
				GPUType:        types[random.IntN(len(types))],
				GPUMemoryBytes: 32 << 30,
			},
		)
	}
	free := map[cluster.NodeID]int{}
	var jobs []schedulertest.Job
	names := throughput.NewTable().Models()
	now := 10 * time.Hour
	for id := range cluster.JobID(random.IntN(15)) {
		j := schedulertest.Job{Phase: scheduler.Waiting, Preemptions: random.IntN(20)}
		j.Job = cluster.Job{
			ID:    id,
			Share: cluster.WholeGPU,
			GPUs:  1 + random.IntN(6),
			Model: names[random.IntN(len(names))],
		}
		j.Submit, j.Estimate = now-time.Duration(
			random.IntN(36000),
		)*time.Second, time.Duration(
			1+random.IntN(100000),
		)*time.Second
		if random.IntN(2) == 0 {
			j.MinGPUs, j.MaxGPUs = 1+random.IntN(j.GPUs), j.GPUs+random.IntN(10)
		}
		if random.IntN(4) == 0 {
			j.Job.GPUType = types[random.IntN(len(types))]
		}
		node := nodes[random.IntN(len(nodes))]
		if random.IntN(2) == 0 && node.GPUs-free[node.ID] >= j.GPUs &&
			(j.Job.GPUType == "" || j.Job.GPUType == node.GPUType) {
			for range j.GPUs {
				j.On = append(j.On, cluster.GPU{Node: node.ID, Index: int32(free[node.ID])})
				free[node.ID]++
			}
			j.Phase, j.Since = scheduler.Running, now-time.Duration(random.IntN(1000))*time.Second
		}
		jobs = append(jobs, j)
	}
	return schedulertest.NewView(now, nodes, jobs...)
}

// breach returns what is wrong with an answer.
func breach(v scheduler.View, answer []scheduler.Allocation) string {
	byType, total := map[string]int{}, 0
	for _, node := range v.Nodes() {
		byType[node.GPUType] += node.GPUs
		total += node.GPUs
	}
	used, given := map[cluster.GPU]bool{}, map[cluster.JobID]bool{}
	for _, a := range answer {
		fewest, most := a.Job.Bounds()
		gpuType := a.GPUType
		if gpuType == "" {
			gpuType = a.Job.GPUType()
		}
		total -= a.GPUs
		byType[gpuType] -= a.GPUs
		for i, gpu := range a.On {
			node := v.Nodes()[gpu.Node]
			if used[gpu] || int(gpu.Index) >= node.GPUs || (gpuType != "" && node.GPUType != gpuType) {
				return "a GPU that it cannot have"
			}
			if i > 0 && (gpu.Node < a.On[i-1].Node || (gpu.Node == a.On[i-1].Node && gpu.Index <= a.On[i-1].Index)) {
				return "GPUs out of order"
			}
			used[gpu] = true
		}
		switch {
		case given[a.Job.ID()]:
			return "a job twice"
		case a.GPUs < fewest || a.GPUs > most:
			return "a number outside of the job's bounds"
		case total < 0 || (gpuType != "" && byType[gpuType] < 0):
			return "more GPUs than there are"
		case a.On != nil && len(a.On) != a.GPUs:
			return "a placement of another size"
		case a.Job.GPUType() != "" && gpuType != a.Job.GPUType():
			return "another type than the job needs"
		}
		given[a.Job.ID()] = true
	}
	return ""
}

func TestBudgetsAndBoundsAreNeverBroken(t *testing.T) {
	table := throughput.NewTable()
	for seed := range uint64(400) {
		v := scene(rand.New(rand.NewPCG(seed, 0)))
		for _, name := range Names() {
			var answers [2][]scheduler.Allocation
			for i := range answers {
				a, _, err := ByName(name, Parameters{Table: table, Seed: 7})
				if err != nil {
					t.Fatal(err)
				}
				answers[i] = a.Allocate(v)
			}
			if what := breach(v, answers[0]); what != "" {
				t.Fatalf("%s, scene %d: %s: %v", name, seed, what, answers[0])
			}
			if !slices.EqualFunc(answers[0], answers[1], func(a, b scheduler.Allocation) bool {
				return a.Job == b.Job && a.GPUs == b.GPUs && a.GPUType == b.GPUType && slices.Equal(a.On, b.On)
			}) {
				t.Fatalf("%s, scene %d: two answers to one question", name, seed)
			}
		}
	}
}

func TestUnknownName(t *testing.T) {
	if _, _, err := ByName("tetris", Parameters{}); err == nil ||
		err.Error() != `unknown elastic policy "tetris"; want one of gavel, optimus, pollux` {
		t.Error(err)
	}
}
