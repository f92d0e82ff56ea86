package elastic

import (
	"math/rand/v2"
	"time"

	"github.com/phos-gpu/phos/scheduler"
	"github.com/phos-gpu/phos/scheduler/cluster"
	"github.com/phos-gpu/phos/scheduler/throughput"
)

// Pollux allocates GPUs by training progress: Qiao et al., "Pollux: Co-adaptive Cluster Scheduling
// for Goodput-Optimized Deep Learning", OSDI 2021, §4.2. Its decision is a matrix of jobs and
// nodes; fitness.go rates a matrix, matrix.go has the constraints.
//
// In place of the paper's genetic algorithm, the search removes a few random jobs and puts them
// back one GPU at a time where they gain most, and keeps improvements (search.go). The random
// numbers depend on the seed and the time only, so the result is reproducible.
//
// A job may get at most twice the GPUs that it ever had, because its speed on more is unknown.
// Pollux is meant for jobs whose batch size adapts to their GPUs: simulate it with
// throughput.NewAdaptiveSpeeds. It treats all types of GPU alike, except that a job gets none that
// it cannot run on.
type Pollux struct {
	table  *throughput.Table
	seed   uint64
	effort int

	// Delta is the assumed cost of a restart, unless there are Costs.
	Delta time.Duration

	// Costs are what saving and loading a job takes; nil means Delta for all jobs.
	Costs scheduler.Costs

	lists jobLists
	most  map[cluster.JobID]int // the most GPUs that each job has had
}

// Limits of the paper's implementation.
const (
	polluxGPUs    = 64 // of a job
	polluxNodes   = 16 // of a job
	polluxRestart = 30 * time.Second
)

// NewPollux returns a Pollux with a table of models.
func NewPollux(t *throughput.Table, seed uint64) *Pollux {
	return &Pollux{table: t, seed: seed, effort: 12, Delta: polluxRestart, most: map[cluster.JobID]int{}}
}

// Allocate implements scheduler.Allocator.
func (p *Pollux) Allocate(v scheduler.View) []scheduler.Allocation {
	lists := p.lists.read(v)
	jobs := lists.active
	p.remember(jobs)
	m := p.matrix(v, lists)
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

// remember updates the most GPUs that jobs have had, and removes jobs that are gone.
func (p *Pollux) remember(jobs []*scheduler.Job) {
	seen := make(map[cluster.JobID]int, len(jobs))
	for _, j := range jobs {
		seen[j.ID()] = max(p.most[j.ID()], len(j.Placement()))
	}
	p.most = seen
}

// matrix returns the decision problem.
func (p *Pollux) matrix(v scheduler.View, jobs *jobLists) *matrix {
	avail := newSupply(v, jobs)
	m := &matrix{nodes: avail.nodes, gpus: avail.gpus, caps: avail.caps.most}
	for _, j := range jobs.active {
		m.jobs = append(m.jobs, p.entry(v, j, avail, len(jobs.active)))
	}
	return m
}

// entry returns a job with the inputs of its fitness.
func (p *Pollux) entry(v scheduler.View, j *scheduler.Job, avail *supply, jobs int) *entry {
	e := &entry{
		base:    make(row, len(avail.nodes)),
		barred:  barred(v, j),
		bounds:  avail.caps.bounds(j),
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
		e.penalty = restart(v.Now()-j.Submitted(), j.Preemptions(), p.restartCost(j))
	}
	model := p.table.Model(j.Model())
	fair := min(max(throughput.Nodes(avail.total, jobs), fewest), most)
	unit := p.table.Goodput(model, throughput.Nodes(fair, max(1, avail.largest)), fair)
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

// minRestart is the least assumed cost of a restart. At zero, equally good matrices would
// alternate.
const minRestart = time.Second

// restartCost returns the assumed cost of a running job's restart.
func (p *Pollux) restartCost(j *scheduler.Job) time.Duration {
	if p.Costs == nil {
		return p.Delta
	}
	return max(minRestart, p.Costs.Save(j)+p.Costs.Load(j, j.Placement()))
}

// barred returns the nodes that a job cannot use; nil if it can use all.
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

// restart returns the factor on a job's speedup after one more restart: the share of its life that
// it would have been running without any of the restarts.
func restart(age time.Duration, restarts int, delta time.Duration) float64 {
	return max(0, (age-time.Duration(restarts)*delta).Seconds()) / max(1e-9, (age+delta).Seconds())
}
