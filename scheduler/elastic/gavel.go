package elastic

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/phos-gpu/phos/cluster"
	"github.com/phos-gpu/phos/scheduler"
	"github.com/phos-gpu/phos/scheduler/throughput"
)

// Gavel allocates types of GPU: Narayanan et al., "Heterogeneity-Aware Cluster Scheduling Policies
// for Deep Learning Workloads", OSDI 2020.
//
// Its target is the share of time that each job runs on each type: max-min fair, measured in
// throughput (maxmin.go). It is computed again when the jobs or the GPUs change. Rounds approximate
// it (§5): the pair of a job and a type with the largest ratio of target to received share is
// first. Pairs with a zero share come last, so that no usable GPU is idle.
//
// Received and due shares count from when Gavel first sees a job, so that a new job has nothing to
// catch up on and targets may change. Jobs get as many GPUs as they ask for.
//
// The paper's weights divide a job's throughput in the target: a job of twice the weight is due
// twice the throughput where jobs compete. A job has the weight of its user, doubled for each
// priority above 0 and halved for each below.
type Gavel struct {
	// Weights are users' weights; 1 for users without an entry.
	Weights map[string]float64

	table    *throughput.Table
	now      time.Duration // of the last call
	accounts map[cluster.JobID]*account

	caps      *caps                  // at the last call
	target    map[jobClass][]float64 // by type
	targetFor string
}

// account is a job's due and received time on each type, in seconds.
type account struct {
	share map[string]float64 // target share of its time
	due   map[string]float64
	had   map[string]float64
}

// jobClass is what jobs must have in common to be in one group.
type jobClass struct {
	model       string
	gpus        int
	gpuType     string
	memoryBytes int64
	weight      float64

	// For capped jobs, the nearest user with a cap, and the share of each GPU.
	capped string
	share  int
}

// classOf returns the class of a job.
func (g *Gavel) classOf(j *scheduler.Job) jobClass {
	k := jobClass{
		model: j.Model(), gpus: j.GPUs(), gpuType: j.OwnGPUType(), memoryBytes: j.GPUMemoryBytes(), weight: g.weight(j),
	}
	if bounds := g.caps.bounds(j); len(bounds) > 0 {
		k.capped, k.share = g.caps.names[bounds[0]], j.Share()
	}
	return k
}

// maxPriority bounds the effect of a priority: beyond, weights would be out of proportion for the
// linear program.
const maxPriority = 10

// weight returns a job's weight.
func (g *Gavel) weight(j *scheduler.Job) float64 {
	weight, named := g.Weights[j.User()]
	if !named {
		weight = 1
	}
	return math.Ldexp(weight, max(-maxPriority, min(maxPriority, j.Priority())))
}

// NewGavel returns a Gavel with a table of models.
func NewGavel(t *throughput.Table) *Gavel {
	return &Gavel{table: t, accounts: map[cluster.JobID]*account{}}
}

// negligible is a share that is only rounding error.
const negligible = 1e-6

// Allocate implements scheduler.Allocator.
func (g *Gavel) Allocate(v scheduler.View) []scheduler.Allocation {
	jobs, avail := active(v), newSupply(v)
	types := avail.types()
	g.caps = avail.caps
	g.accrue(v, jobs)
	g.updateTarget(v, jobs, avail, types)
	var pairs []pair
	for _, j := range jobs {
		a := g.accounts[j.ID()]
		for t, gpuType := range types {
			if share, able := g.share(j, t); able {
				pairs = append(
					pairs,
					pair{j, gpuType, priority(share, a.due[gpuType], a.had[gpuType]), share, runsOn(v, j) == gpuType},
				)
				a.share[gpuType] = share
			}
		}
	}
	var out []scheduler.Allocation
	for _, p := range round(pairs, avail) {
		out = append(out, scheduler.Allocation{Job: p.job, GPUs: p.job.GPUs(), GPUType: p.gpuType})
	}
	return out
}

// accrue accounts for the time since the last call, and removes jobs that are gone.
func (g *Gavel) accrue(v scheduler.View, jobs []*scheduler.Job) {
	before := g.accounts
	g.accounts = make(map[cluster.JobID]*account, len(jobs))
	for _, j := range jobs {
		a := before[j.ID()]
		if a == nil {
			a = &account{map[string]float64{}, map[string]float64{}, map[string]float64{}}
		} else {
			for gpuType, share := range a.share {
				a.due[gpuType] += share * (v.Now() - g.now).Seconds()
			}
		}
		clear(a.share)
		if on := runsOn(v, j); on != nowhere {
			a.had[on] += (v.Now() - max(g.now, j.Since())).Seconds()
		}
		g.accounts[j.ID()] = a
	}
	g.now = v.Now()
}

// nowhere is the type of a job that does not run.
const nowhere = "\x00"

// runsOn returns the type of GPU that a job runs on.
func runsOn(v scheduler.View, j *scheduler.Job) string {
	if j.Phase() != scheduler.Running {
		return nowhere
	}
	return v.Nodes()[j.Placement()[0].Node].GPUType
}

// updateTarget computes the target, unless its input is unchanged.
func (g *Gavel) updateTarget(v scheduler.View, jobs []*scheduler.Job, avail *supply, types []string) {
	counts := map[jobClass]int{}
	var kinds []jobClass
	example := map[jobClass]*scheduler.Job{}
	for _, j := range jobs {
		k := g.classOf(j)
		if counts[k]++; counts[k] == 1 {
			kinds, example[k] = append(kinds, k), j
		}
	}
	slices.SortFunc(kinds, func(a, b jobClass) int {
		return cmp.Or(
			cmp.Compare(a.model, b.model),
			cmp.Compare(a.gpus, b.gpus),
			cmp.Compare(a.gpuType, b.gpuType),
			cmp.Compare(a.memoryBytes, b.memoryBytes),
			cmp.Compare(a.weight, b.weight),
			cmp.Compare(a.capped, b.capped),
			cmp.Compare(a.share, b.share),
		)
	})
	capacity, question := make([]float64, len(types)), ""
	for t, gpuType := range types {
		capacity[t] = float64(avail.byType[gpuType])
		question += fmt.Sprintf("%q %d ", gpuType, avail.byType[gpuType])
	}
	groups := make([]group, len(kinds))
	for i, k := range kinds {
		groups[i] = group{float64(counts[k]), float64(k.gpus), g.rates(v, example[k], types), k.weight}
		question += fmt.Sprintf("%+v %d %v ", k, counts[k], groups[i].rate)
	}
	if question == g.targetFor {
		return
	}
	g.target, g.targetFor = map[jobClass][]float64{}, question
	for i, shares := range maxmin(groups, capacity, g.bounds(kinds, example)...) {
		for t := range shares {
			if groups[i].rate[t] == 0 || capacity[t] < groups[i].gpus {
				shares[t] = math.NaN() // it cannot run there
			}
		}
		g.target[kinds[i]] = shares
	}
}

// bounds returns the users' caps in the form that maxmin takes.
func (g *Gavel) bounds(kinds []jobClass, example map[jobClass]*scheduler.Job) []bound {
	bounds := make([]bound, len(g.caps.names))
	for i := range bounds {
		bounds[i] = bound{float64(g.caps.most[i]) / cluster.WholeGPU, make([]float64, len(kinds))}
	}
	for at, k := range kinds {
		for _, i := range g.caps.bounds(example[k]) {
			bounds[i].of[at] = float64(k.gpus*k.share) / cluster.WholeGPU
		}
	}
	return bounds
}

// share returns a job's target share of a type; able is false if it cannot run there.
func (g *Gavel) share(j *scheduler.Job, t int) (share float64, able bool) {
	share = g.target[g.classOf(j)][t]
	if share < negligible {
		share = 0
	}
	return share, !math.IsNaN(share)
}

// rates returns a job's throughput by type, each on the fewest nodes possible.
func (g *Gavel) rates(v scheduler.View, j *scheduler.Job, types []string) []float64 {
	m, rates, largest := g.table.Model(j.Model()), make([]float64, len(types)), make([]int, len(types))
	if !g.caps.most.has(g.caps.bounds(j), j.GPUs()*j.Share()) {
		return rates // its user may never hold that many
	}
	nodes := v.Nodes()
	for i := range nodes {
		if t, ok := slices.BinarySearch(types, nodes[i].GPUType); ok && !v.Free().Closed(nodes[i].ID) &&
			suits(j, &nodes[i]) {
			largest[t] = max(largest[t], nodes[i].GPUs)
		}
	}
	for t, gpuType := range types {
		if largest[t] > 0 {
			n := throughput.Nodes(j.GPUs(), largest[t])
			rates[t] = m.Rate(n, j.GPUs()) * m.On(gpuType, n, j.GPUs())
		}
	}
	return rates
}
