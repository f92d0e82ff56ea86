package elastic

import (
	"cmp"
	"container/heap"
	"math/bits"
	"slices"

	"github.com/phos-gpu/phos/scheduler"
	"github.com/phos-gpu/phos/scheduler/cluster"
	"github.com/phos-gpu/phos/scheduler/throughput"
)

// Optimus gives each GPU to the job that gains most: Peng et al., "Optimus: An Efficient Dynamic
// Resource Scheduler for Deep Learning Clusters", EuroSys 2018, §4.1. Every job first gets the
// fewest GPUs that it can run on, shortest job first. Then each further GPU goes to the job whose
// remaining time it reduces most, as long as it reduces any. A job's remaining time comes from its
// estimate and from a Curve fitted to its model's throughput on 1, 2, 4, ... GPUs.
//
// The curves are convex in time, so no other allocation within the same bounds has a smaller sum of
// remaining times than the second step reaches. As in the paper, priorities are ignored. An overdue
// job counts as having a tenth of its estimate left.
type Optimus struct {
	table  *throughput.Table
	curves map[curveKey]Curve

	lists  jobLists
	claims []*claim               // memory
	answer []scheduler.Allocation // memory of the last answer

	last      curveKey // of the last call of curve: most jobs follow one of the same key
	lastCurve Curve

	// Pack lets Optimus place jobs, too, by the paper's rule of the fewest nodes (pack.go). Otherwise
	// the Placer does, and jobs that keep their number of GPUs never move.
	Pack bool
}

type curveKey struct {
	model *throughput.Model
	node  int // GPUs of the largest node
	most  int // the most GPUs for which the curve must be accurate
}

// NewOptimus returns an Optimus with a table of models.
func NewOptimus(t *throughput.Table) *Optimus {
	return &Optimus{table: t, curves: map[curveKey]Curve{}}
}

// claim is what Optimus knows of a job.
type claim struct {
	job          *scheduler.Job
	gpuType      string
	fewest, most int
	work         float64 // remaining seconds, if Curve takes 1 second
	curve        Curve
	model        *throughput.Model
	shortest     float64 // remaining seconds on the fewest GPUs

	gpus int // allocated so far
	gain float64
	at   cluster.Placement
}

// Allocate implements scheduler.Allocator. The answer is valid until the next call.
func (o *Optimus) Allocate(v scheduler.View) []scheduler.Allocation {
	jobs := o.lists.read(v)
	avail := newSupply(v, jobs)
	claims := o.claimsFor(len(jobs.active))
	for i, j := range jobs.active {
		o.fill(claims[i], v, j, avail.largest)
	}
	var packer *packer
	if o.Pack {
		packer = newPacker(v, avail)
	}
	giveOut(claims, avail)
	if packer != nil {
		packer.pack(claims)
	}
	o.answer = o.answer[:0]
	for _, c := range claims {
		if c.gpus > 0 {
			o.answer = append(o.answer, scheduler.Allocation{Job: c.job, GPUs: c.gpus, GPUType: c.gpuType, On: c.at})
		}
	}
	return o.answer
}

// claimsFor returns empty claims, in the memory of those of the last call.
func (o *Optimus) claimsFor(jobs int) []*claim {
	for len(o.claims) < jobs {
		more := make([]claim, jobs)
		for i := range more {
			o.claims = append(o.claims, &more[i])
		}
	}
	for _, c := range o.claims {
		*c = claim{}
	}
	return o.claims[:jobs]
}

// fill makes c a job's claim before any GPU is given out.
func (o *Optimus) fill(c *claim, v scheduler.View, j *scheduler.Job, node int) {
	c.job, c.gpuType, c.model = j, j.OwnGPUType(), o.table.Model(j.Model())
	c.fewest, c.most = bounds(j)
	c.curve = o.curve(c.model, max(1, node), max(c.most, j.RequestedGPUs()))
	remaining := j.Remaining(v.Now())
	if remaining == 0 {
		remaining = j.Estimate() / 10
	}
	c.work = remaining.Seconds() / c.curve.Seconds(j.RequestedGPUs())
}

// curve returns a model's fitted curve for up to most GPUs, on as few nodes as they fit on.
func (o *Optimus) curve(m *throughput.Model, node, most int) Curve {
	key := curveKey{m, node, max(8, 1<<bits.Len(uint(most-1)))}
	if key != o.last {
		o.last, o.lastCurve = key, o.fitted(key)
	}
	return o.lastCurve
}

// fitted returns the curve of a key, which it fits once.
func (o *Optimus) fitted(key curveKey) Curve {
	if c, ok := o.curves[key]; ok {
		return c
	}
	var samples []sample
	for n := 1; n <= key.most; n *= 2 {
		samples = append(samples, sample{n, key.model.Batch / key.model.Rate(throughput.Nodes(n, key.node), n)})
	}
	o.curves[key] = fitCurve(samples)
	return o.curves[key]
}

// giveOut allocates the GPUs of the supply.
func giveOut(claims []*claim, avail *supply) {
	order := shortestFirst(slices.Clone(claims))
	for _, c := range order {
		c.shortest = c.remainingOn(c.fewest)
	}
	heap.Init(&order)
	var growing gains
	for len(order) > 0 && avail.total > 0 {
		c := heap.Pop(&order).(*claim)
		if avail.take(c.job, c.gpuType, c.fewest) {
			c.gpus = c.fewest
			growing.add(c)
		}
	}
	heap.Init(&growing)
	for len(growing) > 0 && avail.total > 0 {
		c := growing[0]
		if !avail.take(c.job, c.gpuType, 1) {
			heap.Pop(&growing)
			continue
		}
		c.gpus++
		if c.grow() {
			heap.Fix(&growing, 0)
		} else {
			heap.Pop(&growing)
		}
	}
}

// shortestFirst is a heap of claims, the shortest job on top; few of many get GPUs. Of equal ones
// the first is that of the lowest number.
type shortestFirst []*claim

func (s shortestFirst) Len() int { return len(s) }

func (s shortestFirst) Less(i, k int) bool {
	a, b := s[i], s[k]
	if c := cmp.Compare(a.shortest, b.shortest); c != 0 {
		return c < 0
	}
	return a.job.ID() < b.job.ID()
}

func (s shortestFirst) Swap(i, k int) { s[i], s[k] = s[k], s[i] }

// Push implements heap.Interface.
func (s *shortestFirst) Push(c any) { *s = append(*s, c.(*claim)) }

// Pop implements heap.Interface.
func (s *shortestFirst) Pop() any {
	last := (*s)[len(*s)-1]
	*s = (*s)[:len(*s)-1]
	return last
}

// remainingOn returns the job's remaining seconds on so many GPUs.
func (c *claim) remainingOn(gpus int) float64 { return c.work * c.curve.Seconds(gpus) }

// grow computes the gain of one more GPU, and reports whether there is one.
func (c *claim) grow() bool {
	c.gain = c.remainingOn(c.gpus) - c.remainingOn(c.gpus+1)
	return c.gpus < c.most && c.gain > 0
}

// gains is a heap of the jobs that may get more GPUs, by gain, then by number.
type gains []*claim

// add adds a job that gains from one more GPU.
func (g *gains) add(c *claim) {
	if c.grow() {
		*g = append(*g, c)
	}
}

func (g gains) Len() int { return len(g) }

func (g gains) Less(a, b int) bool {
	if g[a].gain != g[b].gain {
		return g[a].gain > g[b].gain
	}
	return g[a].job.ID() < g[b].job.ID()
}

func (g gains) Swap(a, b int) { g[a], g[b] = g[b], g[a] }

// Push implements heap.Interface.
func (g *gains) Push(c any) { *g = append(*g, c.(*claim)) }

// Pop implements heap.Interface.
func (g *gains) Pop() any {
	last := (*g)[len(*g)-1]
	*g = (*g)[:len(*g)-1]
	return last
}
