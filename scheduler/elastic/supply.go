package elastic

import (
	"cmp"
	"slices"

	"github.com/phos-gpu/phos/cluster"
	"github.com/phos-gpu/phos/scheduler"
)

// supply is what can be allocated: free GPUs and those of running jobs, as if all of them were
// stopped.
type supply struct {
	nodes   []int          // GPUs by node; 0 on closed nodes
	byType  map[string]int // GPUs
	total   int
	largest int // the most GPUs of a node
	caps    *caps
	left    budgets // what is left of these
}

// newSupply counts the GPUs.
func newSupply(v scheduler.View) *supply {
	nodes := v.Nodes()
	r := &supply{nodes: make([]int, len(nodes)), byType: map[string]int{}, caps: capsOf(v, active(v))}
	r.left = slices.Clone(r.caps.most)
	for i := range nodes {
		r.nodes[i] = v.Free().On(nodes[i].ID)
	}
	shared := map[cluster.GPU]bool{}
	for j := range v.Running() {
		for _, gpu := range j.Placement() {
			if v.Free().Closed(gpu.Node) {
				continue
			}
			if j.Share() < cluster.WholeGPU {
				if shared[gpu] {
					continue
				}
				shared[gpu] = true
			}
			r.nodes[gpu.Node]++
		}
	}
	for i, gpus := range r.nodes {
		r.byType[nodes[i].GPUType] += gpus
		r.total += gpus
		r.largest = max(r.largest, gpus)
	}
	return r
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

// active returns the waiting and running jobs, by number.
func active(v scheduler.View) []*scheduler.Job {
	jobs := slices.AppendSeq(slices.Collect(v.Waiting()), v.Running())
	slices.SortFunc(jobs, func(a, b *scheduler.Job) int { return cmp.Compare(a.ID(), b.ID()) })
	return jobs
}

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
