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

// Gavel shares types of GPU out: Narayanan et al., "Heterogeneity-Aware Cluster Scheduling Policies
// for Deep Learning Workloads", OSDI 2020.
//
// Its target says which share of its time each job is to run on each type: max-min fair, measured
// in throughput (maxmin.go). It is worked out anew when other jobs or other GPUs are there. Rounds
// come near it (§5): the pair of a job and a type goes first whose share is largest against what it
// has received of the rounds so far. Pairs that are to have nothing come last, so that no GPU
// stands idle that a job could use.
//
// What a job has received and should have is added up from when Gavel first sees it, so that a new
// job has nothing to catch up on, and so that targets may change. Jobs get as many GPUs as they ask
// for.
type Gavel struct {
	table    *throughput.Table
	now      time.Duration // of the last call
	accounts map[cluster.JobID]*account

	caps      *caps                  // at the last call
	target    map[jobClass][]float64 // by type
	targetFor string
}

// account is what a job should have had of each type, and what it has had, in seconds.
type account struct {
	share map[string]float64 // of its time, from now on
	due   map[string]float64
	had   map[string]float64
}

// jobClass is what jobs must have in common to be in one group.
type jobClass struct {
	model       string
	gpus        int
	gpuType     string
	memoryBytes int64

	// Of jobs that come under a cap, whose that is, the nearest one, and what they take of each GPU.
	capped string
	share  int
}

func (g *Gavel) classOf(j *scheduler.Job) jobClass {
	k := jobClass{model: j.Model(), gpus: j.GPUs(), gpuType: j.OwnGPUType(), memoryBytes: j.GPUMemoryBytes()}
	if bounds := g.caps.bounds(j); len(bounds) > 0 {
		k.capped, k.share = g.caps.names[bounds[0]], j.Share()
	}
	return k
}

// NewGavel is a Gavel that knows models by a table.
func NewGavel(t *throughput.Table) *Gavel {
	return &Gavel{table: t, accounts: map[cluster.JobID]*account{}}
}

// negligible is a share that rounding left.
const negligible = 1e-6

// Allocate gives GPUs out. See scheduler.Allocator.
func (g *Gavel) Allocate(v scheduler.View) []scheduler.Allocation {
	jobs, room := active(v), newSupply(v)
	types := room.types()
	g.caps = room.caps
	g.accrue(v, jobs)
	g.updateTarget(v, jobs, room, types)
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
	for _, p := range round(pairs, room) {
		out = append(out, scheduler.Allocation{Job: p.job, GPUs: p.job.GPUs(), GPUType: p.gpuType})
	}
	return out
}

// accrue enters what has happened since the last call, and forgets jobs that are gone.
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

// nowhere is no type.
const nowhere = "\x00"

func runsOn(v scheduler.View, j *scheduler.Job) string {
	if j.Phase() != scheduler.Running {
		return nowhere
	}
	return v.Nodes()[j.Placement()[0].Node].GPUType
}

// updateTarget works the target out, unless it is the same as before.
func (g *Gavel) updateTarget(v scheduler.View, jobs []*scheduler.Job, room *supply, types []string) {
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
			cmp.Compare(a.capped, b.capped),
			cmp.Compare(a.share, b.share),
		)
	})
	capacity, question := make([]float64, len(types)), ""
	for t, gpuType := range types {
		capacity[t] = float64(room.byType[gpuType])
		question += fmt.Sprintf("%q %d ", gpuType, room.byType[gpuType])
	}
	groups := make([]group, len(kinds))
	for i, k := range kinds {
		groups[i] = group{float64(counts[k]), float64(k.gpus), g.rates(v, example[k], types)}
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

// bounds are what users may hold, as the target takes it.
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

// share is what a job is to have of a type; able is false where it cannot run there.
func (g *Gavel) share(j *scheduler.Job, t int) (share float64, able bool) {
	share = g.target[g.classOf(j)][t]
	if share < negligible {
		share = 0
	}
	return share, !math.IsNaN(share)
}

// rates are a job's throughputs by type, each on as few nodes of the type as there may be.
func (g *Gavel) rates(v scheduler.View, j *scheduler.Job, types []string) []float64 {
	m, rates, largest := g.table.Model(j.Model()), make([]float64, len(types)), make([]int, len(types))
	if !g.caps.most.has(g.caps.bounds(j), j.GPUs()*j.Share()) {
		return rates // its user may never hold as many
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
