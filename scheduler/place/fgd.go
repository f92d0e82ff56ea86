package place

import (
	"cmp"
	"errors"
	"slices"

	"github.com/phos-gpu/phos/scheduler"
	"github.com/phos-gpu/phos/scheduler/cluster"
	"github.com/phos-gpu/phos/scheduler/packed"
)

// FGD places a job where it makes the fewest free GPUs useless for typical jobs: fragmentation
// gradient descent (Weng et al., Beware of Fragmentation: Scheduling GPU-Sharing Workloads with
// Fragmentation Gradient Descent, ATC 2023, §4). The free GPUs of a node are a fragment for a task
// that the node cannot take now; for a task that it can take, those GPUs are that have too little
// left for it. Fragmentation is the mean over the mix of tasks, and a job goes to the node and GPU
// where it grows least. Only the GPUs of a node count here. A job for several nodes gets those with
// the most free GPUs, by the same rule.
type FGD struct {
	mix     []Task
	free    *scheduler.Free // that the columns belong to
	columns map[demand]*column
}

// Task is a kind of job.
type Task struct {
	GPUs    int
	Share   int // in thousandths of a GPU
	GPUType string
	Jobs    int // how many jobs ask for it
}

// ErrNoMix is returned if the mix of jobs is empty.
var ErrNoMix = errors.New("placement fgd needs the mix of jobs that it places for")

// Mix counts what jobs ask for.
func Mix(jobs *packed.Jobs) []Task {
	counts := map[Task]int{}
	for _, j := range jobs.All() {
		task := Task{GPUs: j.GPUs, Share: j.Share, GPUType: j.GPUType}
		if task.Share == 0 {
			task.Share = cluster.WholeGPU
		}
		counts[task]++
	}
	var mix []Task
	for task, n := range counts {
		task.Jobs = n
		mix = append(mix, task)
	}
	slices.SortFunc(mix, func(a, b Task) int {
		return cmp.Or(cmp.Compare(a.GPUs, b.GPUs), cmp.Compare(a.Share, b.Share), cmp.Compare(a.GPUType, b.GPUType))
	})
	return mix
}

// demand is what a job asks for on one node.
type demand struct {
	gpus, share int
	gpuType     string
	memoryBytes int64
}

// column is the effect of one demand on each node. An entry is valid while the node's version is
// the same.
type column struct {
	versions []uint32 // plus 1; 0 if not computed
	effects  []effect
}

// effect is what a demand does to a node.
type effect struct {
	possible bool
	growth   int64 // of fragmentation, in thousandths of a GPU times jobs
	gpu      int32 // the GPU for a share
}

// NewFGD returns an FGD for a mix of jobs.
func NewFGD(mix []Task) (*FGD, error) {
	if len(mix) == 0 {
		return nil, ErrNoMix
	}
	return &FGD{mix: mix}, nil
}

// Place returns n GPUs, or a share of one.
func (g *FGD) Place(v scheduler.View, j *scheduler.Job, n int) (cluster.Placement, bool) {
	f := v.Free()
	if f != g.free {
		g.free, g.columns = f, map[demand]*column{}
	}
	whole := j.Share() == cluster.WholeGPU
	if whole && f.WholeFor(j) < n {
		return nil, false
	}
	if whole && n > f.Largest(j) {
		return pickAll(f, g.across(v, j, n)), true
	}
	node, best := g.best(v, j, n, nil)
	switch {
	case !best.possible:
		return nil, false
	case whole:
		return f.Pick(nil, node, n), true
	}
	return cluster.Placement{{Node: node, Index: best.gpu}}, true
}

// best returns the node where a demand does the least harm, out of those that are not taken.
func (g *FGD) best(v scheduler.View, j *scheduler.Job, n int, taken []nodePart) (node cluster.NodeID, best effect) {
	c := g.column(v, j, n)
	for i := range c.effects {
		e := &c.effects[i]
		if version := g.free.Version(cluster.NodeID(i)) + 1; c.versions[i] != version {
			c.versions[i] = version
			*e = g.effect(v, j, n, cluster.NodeID(i))
		}
		if !e.possible || best.possible && e.growth >= best.growth {
			continue
		}
		if !slices.ContainsFunc(taken, func(p nodePart) bool { return p.node == cluster.NodeID(i) }) {
			node, best = cluster.NodeID(i), *e
		}
	}
	return node, best
}

// maxColumns bounds the cache; when it is full, it is cleared.
const maxColumns = 256

// column returns the cached effects of a demand.
func (g *FGD) column(v scheduler.View, j *scheduler.Job, n int) *column {
	d := demand{n, j.Share(), j.GPUType(), j.GPUMemoryBytes()}
	c, ok := g.columns[d]
	if !ok {
		if len(g.columns) >= maxColumns {
			clear(g.columns)
		}
		c = &column{}
		g.columns[d] = c
	}
	if short := len(v.Nodes()) - len(c.effects); short > 0 {
		c.effects = append(c.effects, make([]effect, short)...)
		c.versions = append(c.versions, make([]uint32, short)...)
	}
	return c
}

// effect computes what a demand does to a node.
func (g *FGD) effect(v scheduler.View, j *scheduler.Job, n int, node cluster.NodeID) effect {
	s := g.state(v, node)
	if g.free.Closed(node) || !g.free.Suits(j, node) {
		return effect{}
	}
	before := g.fragments(&s)
	if j.Share() == cluster.WholeGPU {
		if s.whole < n {
			return effect{}
		}
		s.whole -= n
		return effect{possible: true, growth: g.fragments(&s) - before}
	}
	best := effect{}
	consider := func(gpu int32, s *state) {
		growth := g.fragments(s) - before
		if !best.possible || growth < best.growth || growth == best.growth && gpu < best.gpu {
			best = effect{true, growth, gpu}
		}
	}
	for i, p := range s.parts {
		if p.free >= j.Share() {
			s.parts[i].free -= j.Share()
			consider(p.gpu, &s)
			s.parts[i].free = p.free
		}
	}
	if s.whole > 0 {
		gpu := g.free.Pick(nil, node, 1)[0].Index
		s.whole--
		s.parts = append(s.parts, gpuPart{gpu, cluster.WholeGPU - j.Share()})
		consider(gpu, &s)
	}
	return best
}

// state is what is free of a node.
type state struct {
	node  *cluster.Node
	whole int
	parts []gpuPart
}

// gpuPart is what is free of a shared GPU.
type gpuPart struct {
	gpu  int32
	free int
}

// state returns how many GPUs of a node are free, and the free parts of its shared GPUs.
func (g *FGD) state(v scheduler.View, node cluster.NodeID) state {
	s := state{node: &v.Nodes()[node], whole: g.free.On(node)}
	for i := range int32(s.node.GPUs) {
		if free := g.free.Share(cluster.GPU{Node: node, Index: i}); free > 0 && free < cluster.WholeGPU {
			s.parts = append(s.parts, gpuPart{i, free})
		}
	}
	return s
}

// fragments returns how much of a node's free GPUs is useless, summed over the mix.
func (g *FGD) fragments(s *state) int64 {
	sum := int64(0)
	for i := range g.mix {
		task := &g.mix[i]
		sum += int64(task.Jobs) * int64(s.useless(task))
	}
	return sum
}

// useless returns how much of the free GPUs is useless for a task, in thousandths of a GPU. A task
// for more GPUs than a node has wants all of it.
func (s *state) useless(task *Task) int {
	fits := task.GPUType == "" || task.GPUType == s.node.GPUType
	useless := 0
	for _, p := range s.parts {
		if !fits || p.free < task.Share {
			useless += p.free
		}
	}
	if !fits || s.whole < min(task.GPUs, s.node.GPUs) && task.Share == cluster.WholeGPU {
		useless += s.whole * cluster.WholeGPU
	}
	return useless
}

// across places a job that no single node can take.
func (g *FGD) across(v scheduler.View, j *scheduler.Job, n int) (parts []nodePart) {
	f := g.free
	for level := f.Largest(j); n > 0; level-- {
		all := g.leastHarm(v, j, level)
		full := min(len(all), n/level)
		parts, n = append(parts, all[:full]...), n-full*level
		if n > 0 && full < len(all) {
			node, _ := g.best(v, j, n, parts)
			parts, n = append(parts, nodePart{node, n}), 0
		}
	}
	return sortParts(parts)
}

// leastHarm returns the nodes with exactly n free GPUs, ordered by the harm of taking all of them.
func (g *FGD) leastHarm(v scheduler.View, j *scheduler.Job, n int) []nodePart {
	var all []nodePart
	growth := map[cluster.NodeID]int64{}
	for node, ok := g.free.Next(j, 0, n, n); ok; node, ok = g.free.Next(j, node+1, n, n) {
		all = append(all, nodePart{node, n})
		growth[node] = g.effect(v, j, n, node).growth
	}
	slices.SortStableFunc(all, func(a, b nodePart) int { return cmp.Compare(growth[a.node], growth[b.node]) })
	return all
}
