package elastic

import (
	"cmp"
	"math/bits"
	"slices"

	"github.com/phos-gpu/phos/scheduler"
	"github.com/phos-gpu/phos/scheduler/cluster"
)

// supply is what can be allocated: free GPUs and those of running jobs, as if all of them were
// stopped. Jobs that stay where they are, and their GPUs, are no part of it.
type supply struct {
	gpus    []uint64       // by node, a bit for each GPU; 0 on closed nodes
	nodes   []int          // how many these are
	byType  map[string]int // GPUs
	total   int
	largest int // the most GPUs of a node
	caps    *caps
	left    budgets // what is left of these
}

// newSupply returns what the jobs compete for.
func newSupply(v scheduler.View, jobs *jobLists) *supply {
	r := new(supply)
	r.read(v, jobs)
	return r
}

// read counts the GPUs that the jobs compete for. It reuses the memory of the last time.
func (r *supply) read(v scheduler.View, jobs *jobLists) {
	nodes := v.Nodes()
	if r.byType == nil {
		r.byType, r.caps = map[string]int{}, newCaps()
	}
	clear(r.byType)
	r.gpus, r.nodes, r.total, r.largest = r.gpus[:0], r.nodes[:0], 0, 0
	r.caps.read(v, jobs.active, jobs.running)
	for i := range nodes {
		r.gpus = append(r.gpus, v.Free().Mask(nodes[i].ID))
	}
	for _, j := range jobs.running {
		if stays(v, j) {
			r.caps.most.spend(r.caps.bounds(j), len(j.Placement())*j.Share())
			continue
		}
		for _, gpu := range j.Placement() {
			r.gpus[gpu.Node] |= 1 << gpu.Index
		}
	}
	for i := range r.caps.most {
		r.caps.most[i] = max(0, r.caps.most[i]) // a job that was adopted may exceed its cap
	}
	r.left = append(r.left[:0], r.caps.most...)
	for i, gpus := range r.gpus {
		r.nodes = append(r.nodes, bits.OnesCount64(gpus))
		r.byType[nodes[i].GPUType] += r.nodes[i]
		r.total += r.nodes[i]
		r.largest = max(r.largest, r.nodes[i])
	}
}

// stays reports whether a running job keeps its GPUs in any case: the node of one is cordoned, or
// something foreign uses it, too.
func stays(v scheduler.View, j *scheduler.Job) bool {
	return slices.ContainsFunc(j.Placement(), func(gpu cluster.GPU) bool { return !v.Free().Usable(gpu) })
}

// types returns the GPU types present, sorted.
func (r *supply) types() []string {
	var types []string
	for gpuType, gpus := range r.byType {
		if gpus > 0 {
			types = append(types, gpuType)
		}
	}
	slices.Sort(types)
	return types
}

// take allocates GPUs of a type (any type if it is empty) to a job. It returns false if there are
// not enough, or the user's cap does not allow them.
func (r *supply) take(j *scheduler.Job, gpuType string, gpus int) bool {
	which, cost := r.caps.bounds(j), gpus*j.Share()
	if gpus > r.total || (gpuType != "" && gpus > r.byType[gpuType]) || !r.left.has(which, cost) {
		return false
	}
	r.left.spend(which, cost)
	r.total -= gpus
	if gpuType != "" {
		r.byType[gpuType] -= gpus
	}
	return true
}

// jobLists are the jobs of a View. Reading them again reuses the memory.
type jobLists struct {
	active  []*scheduler.Job // those that wait or run, by number, without those that stay
	running []*scheduler.Job // all of them
	waiting []*scheduler.Job
	moving  []*scheduler.Job // running ones that are active
}

// read lists the jobs of a view. In most orders waiting jobs are by number already.
func (l *jobLists) read(v scheduler.View) *jobLists {
	l.waiting = slices.AppendSeq(l.waiting[:0], v.Waiting())
	l.running = slices.AppendSeq(l.running[:0], v.Running())
	l.moving = l.moving[:0]
	for _, j := range l.running {
		if !stays(v, j) {
			l.moving = append(l.moving, j)
		}
	}
	for _, jobs := range [][]*scheduler.Job{l.waiting, l.moving} {
		if !slices.IsSortedFunc(jobs, byNumber) {
			slices.SortFunc(jobs, byNumber)
		}
	}
	moving := l.moving
	l.active = l.active[:0]
	for _, j := range l.waiting {
		for len(moving) > 0 && moving[0].ID() < j.ID() {
			l.active, moving = append(l.active, moving[0]), moving[1:]
		}
		l.active = append(l.active, j)
	}
	l.active = append(l.active, moving...)
	return l
}

// byNumber compares jobs by number.
func byNumber(a, b *scheduler.Job) int { return cmp.Compare(a.ID(), b.ID()) }

// bounds returns the fewest and the most GPUs that a job can run on, at least one.
func bounds(j *scheduler.Job) (fewest, most int) {
	fewest, most = j.Bounds()
	fewest = max(1, fewest)
	return fewest, max(fewest, most)
}

// suits reports whether a job can run on a node's GPUs. Unlike Free.Suits it ignores the type that
// an allocation chose for the current run.
func suits(j *scheduler.Job, node *cluster.Node) bool {
	return (j.OwnGPUType() == "" || j.OwnGPUType() == node.GPUType) &&
		(node.GPUMemoryBytes == 0 || j.GPUMemoryBytes() <= node.GPUMemoryBytes)
}
