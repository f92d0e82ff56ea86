package elastic

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/phos-gpu/phos/scheduler"
	"github.com/phos-gpu/phos/scheduler/cluster"
	"github.com/phos-gpu/phos/scheduler/schedulertest"
	"github.com/phos-gpu/phos/scheduler/throughput"
)

// TestRoundOfThePaper is the example of the paper's §5: shares and rounds received so far, and the
// jobs of the next round.
func TestRoundOfThePaper(t *testing.T) {
	types := []string{"V100", "P100", "K80"}
	share := [][]float64{{0.6, 0.4, 0}, {0.2, 0.6, 0.2}, {0.2, 0, 0.8}}
	received := [][]float64{{3, 1, 0}, {1, 3, 0}, {0, 0, 4}}
	inf := math.Inf(1)
	want := [][]float64{{0.2, 0.4, 0}, {0.2, 0.2, inf}, {inf, 0, 0.2}}
	var jobs []schedulertest.Job
	for id := range cluster.JobID(3) {
		jobs = append(jobs, schedulertest.Job{Phase: scheduler.Waiting, Job: cluster.Job{ID: id, GPUs: 1}})
	}
	v := schedulertest.NewView(0, nil, jobs...)
	var pairs []pair
	for j := range v.Waiting() {
		for k, gpuType := range types {
			// One round each: the due part of a pair is its share of it.
			p := priority(share[j.ID()][k], share[j.ID()][k], received[j.ID()][k])
			if p != want[j.ID()][k] && math.Abs(p-want[j.ID()][k]) > 1e-9 {
				t.Errorf("job %d on a %s has the priority %g, in the paper %g", j.ID(), gpuType, p, want[j.ID()][k])
			}
			pairs = append(pairs, pair{j, int(j.ID()), gpuType, p, share[j.ID()][k], false})
		}
	}
	next := map[cluster.JobID]string{}
	avail := &supply{total: 3, byType: map[string]int{"V100": 1, "P100": 1, "K80": 1}}
	for _, p := range new(round).choose(pairs, len(jobs), avail) {
		next[p.job.ID()] = p.gpuType
	}
	if next[0] != "P100" || next[1] != "K80" || next[2] != "V100" {
		t.Errorf("the next round is %v", next)
	}
}

// rounds plays rounds of a minute and counts each job's part of them on each type.
func rounds(
	t *testing.T,
	g *Gavel,
	nodes []cluster.Node,
	jobs []cluster.Job,
	n int,
) map[cluster.JobID]map[string]float64 {
	t.Helper()
	had := map[cluster.JobID]map[string]float64{}
	runs := map[cluster.JobID]schedulertest.Job{}
	for _, j := range jobs {
		had[j.ID] = map[string]float64{}
		runs[j.ID] = schedulertest.Job{Phase: scheduler.Waiting, Job: j}
	}
	for i := range n {
		now := time.Duration(i) * time.Minute
		var made []schedulertest.Job
		for _, j := range jobs {
			made = append(made, runs[j.ID])
		}
		v := schedulertest.NewView(now, nodes, made...)
		answer := g.Allocate(v)
		if what := breach(v, answer); what != "" {
			t.Fatal(what)
		}
		next, used := map[cluster.JobID]schedulertest.Job{}, map[cluster.NodeID]int{}
		for _, a := range answer {
			had[a.Job.ID()][a.GPUType] += 1 / float64(n)
			m := schedulertest.Job{Phase: scheduler.Running, Since: now, Job: runs[a.Job.ID()].Job}
			for _, node := range nodes { // here a node of a type has all of its GPUs
				if node.GPUType == a.GPUType {
					for range a.GPUs {
						m.On = append(m.On, cluster.GPU{Node: node.ID, Index: int32(used[node.ID])})
						used[node.ID]++
					}
				}
			}
			next[a.Job.ID()] = m
		}
		for _, j := range jobs {
			m, running := next[j.ID]
			if !running {
				m = schedulertest.Job{Phase: scheduler.Waiting, Job: j}
			}
			runs[j.ID] = m
		}
	}
	return had
}

// TestRatesFollowMachines closes the only node that a job fits on: its rate on several nodes counts
// from then on, as for a Gavel that knows no other state.
func TestRatesFollowMachines(t *testing.T) {
	nodes := machines(4, 2, "V100")
	nodes[0].GPUs = 4
	v := schedulertest.NewView(0, nodes, schedulertest.Job{
		Phase: scheduler.Waiting, Job: cluster.Job{ID: 1, GPUs: 4, Model: "resnet50"},
	})
	g, other := NewGavel(throughput.NewTable()), NewGavel(throughput.NewTable())
	g.Allocate(v)
	open := g.targetFor.numbers[1]
	v.Close(0)
	g.Allocate(v)
	other.Allocate(v)
	closed := g.targetFor.numbers[1]
	if want := other.targetFor.numbers[1]; closed != want || closed >= open {
		t.Errorf("the rate is %g on one node, and %g on two, want %g", open, closed, want)
	}
}

func paperTable(t *testing.T) *throughput.Table {
	t.Helper()
	models, err := throughput.Read(strings.NewReader(`model,gpus,gpu_type,rate
m0,1,V100,40
m0,1,K80,10
m1,1,V100,12
m1,1,K80,4
m2,1,V100,100
m2,1,K80,50
`))
	if err != nil {
		t.Fatal(err)
	}
	return throughput.NewTable(models...)
}

// TestRoundsComeNearTheTarget: over many rounds each job gets the share of the paper's example.
func TestRoundsComeNearTheTarget(t *testing.T) {
	nodes := append(machines(1, 1, "V100"), cluster.Node{ID: 1, GPUs: 1, GPUType: "K80"})
	var jobs []cluster.Job
	for id := range cluster.JobID(3) {
		jobs = append(jobs, cluster.Job{ID: id, GPUs: 1, Model: fmt.Sprint("m", id)})
	}
	had := rounds(t, NewGavel(paperTable(t)), nodes, jobs, 1000)
	for id, want := range []map[string]float64{
		{"V100": 0.4545, "K80": 0},
		{"V100": 0.4545, "K80": 0.0909},
		{"V100": 0.0909, "K80": 0.9091},
	} {
		for gpuType, share := range want {
			if got := had[cluster.JobID(id)][gpuType]; math.Abs(got-share) > 0.02 {
				t.Errorf("job %d had %.3f of its time on a %s, the target is %.3f", id, got, gpuType, share)
			}
		}
	}
}

// TestRoundsAreFairOnOneType: on one type, jobs of equal size have equal time, whether or not they
// fit at once.
func TestRoundsAreFairOnOneType(t *testing.T) {
	var jobs []cluster.Job
	for id := range cluster.JobID(5) {
		jobs = append(jobs, cluster.Job{ID: id, GPUs: 2, Model: "bert"})
	}
	for id, had := range rounds(t, NewGavel(throughput.NewTable()), machines(1, 4, "V100"), jobs, 200) {
		if math.Abs(had["V100"]-0.4) > 0.02 {
			t.Errorf("job %d had %.3f of its time, not 0.4", id, had["V100"])
		}
	}
}

func TestGavelRespectsRequirements(t *testing.T) {
	nodes := append(machines(1, 4, "V100"), cluster.Node{ID: 1, GPUs: 2, GPUType: "H100", GPUMemoryBytes: 80 << 30})
	nodes[0].GPUMemoryBytes = 16 << 30
	v := schedulertest.NewView(
		0,
		nodes,
		schedulertest.Job{
			Phase: scheduler.Waiting,
			Job:   cluster.Job{ID: 1, GPUs: 1, Model: "bert", GPUMemoryBytes: 40 << 30},
		},
		schedulertest.Job{Phase: scheduler.Waiting, Job: cluster.Job{ID: 2, GPUs: 1, Model: "bert", GPUType: "V100"}},
		schedulertest.Job{Phase: scheduler.Waiting, Job: cluster.Job{ID: 3, GPUs: 4, Model: "bert"}},
		schedulertest.Job{Phase: scheduler.Waiting, Job: cluster.Job{ID: 4, GPUs: 5, Model: "bert"}},
	)
	got := map[cluster.JobID]string{}
	for _, a := range NewGavel(throughput.NewTable()).Allocate(v) {
		got[a.Job.ID()] = a.GPUType
	}
	if got[1] != "H100" || (got[2] != "V100") == (got[3] != "V100") || got[4] != "" {
		t.Errorf("they run on %v", got)
	}
}
