package elastic

import (
	"math/rand/v2"
	"time"

	"github.com/phos-gpu/phos/cluster"
	"github.com/phos-gpu/phos/scheduler"
	"github.com/phos-gpu/phos/scheduler/throughput"
)

// Pollux gives GPUs out so that training gets on: Qiao et al., "Pollux: Co-adaptive Cluster
// Scheduling for Goodput-Optimized Deep Learning", OSDI 2021, §4.2. What it decides is a matrix of
// jobs and nodes; fitness.go says which one is good, matrix.go which ones there may be.
//
// In place of the paper's genetic algorithm it takes a few jobs out, at random, and puts them back
// one GPU at a time where they gain most, and keeps what is better (search.go). The numbers are
// drawn from the seed and the time: the same moment gets the same answer.
//
// A job may have at most twice the GPUs that it ever had, because nobody knows how it does on more.
// It is meant for jobs whose batch size is adapted to what they have: simulate it with
// throughput.NewAdaptiveSpeeds. All types of GPU are alike to it, but a job gets none that it
// cannot run on.
type Pollux struct {
	table  *throughput.Table
	seed   uint64
	effort int

	// Delta is what a restart is taken to cost.
	Delta time.Duration

	most map[cluster.JobID]int // GPUs that it has ever had
}

// Bounds of the paper's implementation.
const (
	polluxGPUs    = 64 // of a job
	polluxNodes   = 16 // of a job
	polluxRestart = 30 * time.Second
)

// NewPollux is a Pollux that knows models by a table.
func NewPollux(t *throughput.Table, seed uint64) *Pollux {
	return &Pollux{table: t, seed: seed, effort: 12, Delta: polluxRestart, most: map[cluster.JobID]int{}}
}

// Allocate gives GPUs out. See scheduler.Allocator.
func (p *Pollux) Allocate(v scheduler.View) []scheduler.Allocation {
	jobs := active(v)
	p.remember(jobs)
	m := p.matrix(v, jobs)
	rows := m.search(rand.New(rand.NewPCG(p.seed, uint64(v.Now()))), p.effort)
	free := unused(jobs, m, rows)
	var out []scheduler.Allocation
	for i, row := range rows {
		if gpus := row.gpus(); gpus > 0 {
			a := scheduler.Allocation{Job: jobs[i], GPUs: gpus, On: jobs[i].Placement()}
			if !row.equal(m.jobs[i].base) || jobs[i].Phase() != scheduler.Running {
				a.On = free.pick(row)
			}
			out = append(out, a)
		}
	}
	return out
}

// remember notes how many GPUs jobs have had, and forgets those that are gone.
func (p *Pollux) remember(jobs []*scheduler.Job) {
	seen := make(map[cluster.JobID]int, len(jobs))
	for _, j := range jobs {
		seen[j.ID()] = max(p.most[j.ID()], len(j.Placement()))
	}
	p.most = seen
}

// matrix is what there is to decide.
func (p *Pollux) matrix(v scheduler.View, jobs []*scheduler.Job) *matrix {
	room := newSupply(v)
	m := &matrix{nodes: room.nodes, caps: room.caps.most}
	for _, j := range jobs {
		m.jobs = append(m.jobs, p.entry(v, j, room, len(jobs)))
	}
	return m
}

// entry is a job with all that its fitness takes.
func (p *Pollux) entry(v scheduler.View, j *scheduler.Job, room *supply, jobs int) *entry {
	e := &entry{
		base:    make(row, len(room.nodes)),
		barred:  barred(v, j),
		bounds:  room.caps.bounds(j),
		share:   j.Share(),
		penalty: 1,
	}
	fewest, most := bounds(j)
	most = max(fewest, min(most, polluxGPUs))
	e.fewest, e.most = fewest, max(fewest, min(most, 2*max(1, p.most[j.ID()])))
	for _, gpu := range j.Placement() {
		e.base[gpu.Node]++
	}
	if j.Phase() == scheduler.Running {
		e.penalty = restart(v.Now()-j.Submitted(), j.Preemptions(), p.Delta)
	}
	model := p.table.Model(j.Model())
	fair := min(max(throughput.Nodes(room.total, jobs), fewest), most)
	unit := p.table.Goodput(model, throughput.Nodes(fair, max(1, room.largest)), fair)
	for spread := range e.speedup {
		for gpus := range e.most + 1 {
			s := 0.0
			if gpus > 0 {
				s = p.table.Goodput(model, spread+1, gpus) / unit
			}
			e.speedup[spread] = append(e.speedup[spread], s)
		}
	}
	return e
}

// barred are the nodes whose GPUs a job cannot use; nil where it can use all.
func barred(v scheduler.View, j *scheduler.Job) []bool {
	if j.OwnGPUType() == "" && j.GPUMemoryBytes() == 0 {
		return nil
	}
	nodes := v.Nodes()
	out := make([]bool, len(nodes))
	for i := range nodes {
		out[i] = !suits(j, &nodes[i])
	}
	return out
}

// restart is what is left of a job's speedup when it is restarted once more: the share of its life
// that it would have been running without any of the restarts.
func restart(age time.Duration, restarts int, delta time.Duration) float64 {
	return max(0, (age-time.Duration(restarts)*delta).Seconds()) / max(1e-9, (age+delta).Seconds())
}
