package template

import (
	"math"
	"slices"

	"github.com/phos-gpu/phos/cluster/pipeline"
)

// slots finds the best cut for one number of nodes of several GPUs, or with memory: an exact dynamic programme from the last layer to
// the first, over GPUs given out and layers placed.
//
// With the slowest stage's time B fixed, an iteration's time is a sum over stages: (N-1)·B, and w for each stage before the slowest,
// and 2w-B for it and each stage behind it. So bounds B are tried in ascending order, until none that is left can be better.
type slots struct {
	Search
	nodes  int
	gpus   int // of all nodes
	widths []int
	bounds []int64 // all times that a stage can take, ascending

	// Costs by GPUs given out, stages made and first layer, before and after the slowest stage has been met. The number of stages is
	// only told apart where memory depends on it: with one width it is the number of GPUs.
	depth   int
	behind  []int64
	through []int64
}

const impossible = math.MaxInt64 / 4

func (s Search) slots(nodes int) *slots {
	c := &slots{Search: s, nodes: nodes, gpus: nodes * s.GPUsPerNode, widths: s.Profile.Widths(s.GPUsPerNode), depth: 1}
	if s.GPUMemoryBytes > 0 && len(c.widths) > 1 {
		c.depth = c.gpus + 1
	}
	layers := s.Profile.Len()
	for _, width := range c.widths {
		for from := range layers {
			for to := from + 1; to <= layers; to++ {
				c.bounds = append(c.bounds, s.Profile.Time(from, to, width))
			}
		}
	}
	slices.Sort(c.bounds)
	c.bounds = slices.Compact(c.bounds)
	c.behind = make([]int64, (c.gpus+1)*c.depth*(layers+1))
	c.through = make([]int64, len(c.behind))
	return c
}

func (c *slots) at(gpus, stages, layer int) int {
	if c.depth == 1 {
		stages = 0
	}
	return (gpus*c.depth+stages)*(c.Profile.Len()+1) + layer
}

// fits reports whether there is any cut with stages no slower than a bound.
func (c *slots) fits(bound int64) bool {
	c.reset()
	c.through[c.at(0, 0, c.Profile.Len())] = 0
	c.run(bound)
	cost, _ := c.whole()
	return cost < impossible
}

func (c *slots) reset() {
	for i := range c.behind {
		c.behind[i], c.through[i] = impossible, impossible
	}
}

// cost is the sum over stages for the best cut whose slowest stage takes exactly the bound.
func (c *slots) cost(bound int64) int64 {
	c.reset()
	c.behind[c.at(0, 0, c.Profile.Len())] = 0
	c.run(bound)
	cost, _ := c.whole()
	return cost
}

// whole is the best of the ways to have placed all layers on all GPUs, and its number of stages.
func (c *slots) whole() (cost int64, stages int) {
	cost = impossible
	for n := range c.depth {
		if each := c.through[c.at(c.gpus, n, 0)]; each < cost {
			cost, stages = each, n
		}
	}
	return cost, stages
}

func (c *slots) run(bound int64) {
	for gpus := 1; gpus <= c.gpus; gpus++ {
		for _, width := range c.widths {
			// A stage lies on one node.
			if (gpus-1)%c.GPUsPerNode+1 < width {
				continue
			}
			for stages := range c.depth {
				c.stage(gpus, width, stages, bound)
			}
		}
	}
}

// stage puts a stage before all that has been placed on gpus-width GPUs in so many stages.
func (c *slots) stage(gpus, width, stages int, bound int64) {
	layers := c.Profile.Len()
	source := c.at(gpus-width, stages, 0)
	target := c.at(gpus, min(stages+1, c.depth-1), 0)
	for from := layers - 1; from >= 0; from-- {
		for to := from + 1; to <= layers; to++ {
			time := c.Profile.Time(from, to, width)
			if time > bound || !c.holds(from, to, width, c.inFlight(gpus, stages)) {
				break
			}
			behind, through := c.behind[source+to], c.through[source+to]
			if time < bound {
				c.behind[target+from] = min(c.behind[target+from], behind+2*time-bound)
			} else {
				c.through[target+from] = min(c.through[target+from], behind+bound)
			}
			c.through[target+from] = min(c.through[target+from], through+time)
		}
	}
}

// inFlight is how many microbatches the stage keeps that is put before so many others: one, and one for each of them.
func (c *slots) inFlight(gpus, stages int) int {
	if len(c.widths) == 1 {
		return gpus
	}
	return stages + 1
}

func (s Search) holds(from, to, width, inFlight int) bool {
	return s.GPUMemoryBytes == 0 || s.Profile.Bytes(from, to, width, inFlight) <= s.GPUMemoryBytes
}

// best is the best cut, nil where none fits.
func (c *slots) best() *pipeline.Template {
	microbatches := PlanningMicrobatches * c.gpus
	first := c.firstBound()
	best, bestBound := int64(impossible), int64(0)
	for _, bound := range c.bounds[first:] {
		if c.atLeast(bound, microbatches) >= best {
			break
		}
		if cost := c.cost(bound); cost < impossible && cost+int64(microbatches-1)*bound < best {
			best, bestBound = cost+int64(microbatches-1)*bound, bound
		}
	}
	if best == impossible {
		return nil
	}
	c.cost(bestBound)
	return &pipeline.Template{Nodes: c.nodes, Microbatches: microbatches, Stages: c.trace(bestBound)}
}

// firstBound is the index of the least bound that any cut keeps.
func (c *slots) firstBound() int {
	first, _ := slices.BinarySearchFunc(c.bounds, true, func(bound int64, _ bool) int {
		if c.fits(bound) {
			return 0
		}
		return -1
	})
	return first
}

// atLeast is less than any iteration with a slowest stage of bound: each of the stages behind it saves less than a bound, and no layer
// is faster than on the most GPUs.
func (c *slots) atLeast(bound int64, microbatches int) int64 {
	widest := int64(c.widths[len(c.widths)-1])
	return int64(microbatches-c.gpus)*bound + c.Profile.Time(0, c.Profile.Len(), 1)/widest
}

// state is where the way back has come to.
type state struct {
	gpus, stages, layer int
	met                 bool // the slowest stage lies before it
	cost                int64
}

// trace follows the least cost back from the whole to its stages.
func (c *slots) trace(bound int64) (found []pipeline.Stage) {
	cost, stages := c.whole()
	for at := (state{gpus: c.gpus, stages: stages, cost: cost}); at.gpus > 0; {
		var s pipeline.Stage
		s, at = c.step(at, bound)
		found = append(found, s)
	}
	return found
}

// step finds a stage that the cost of a state comes from, and the state behind it.
func (c *slots) step(at state, bound int64) (pipeline.Stage, state) {
	for _, width := range c.widths {
		if (at.gpus-1)%c.GPUsPerNode+1 < width {
			continue
		}
		for to := at.layer + 1; to <= c.Profile.Len(); to++ {
			time := c.Profile.Time(at.layer, to, width)
			if time > bound || !c.holds(at.layer, to, width, c.inFlight(at.gpus, at.stages-1)) {
				break
			}
			if next, comes := c.comesFrom(at, width, to, time, bound); comes {
				return pipeline.Stage{From: at.layer, To: to, GPUs: width, Time: time, Node: c.nodes - 1 - (at.gpus-1)/c.GPUsPerNode}, next
			}
		}
	}
	panic("template: a cost without a stage that it comes from")
}

// comesFrom reports whether a state's cost is that of a stage of width GPUs up to a layer, and what lies behind the stage.
func (c *slots) comesFrom(at state, width, to int, time, bound int64) (next state, comes bool) {
	next = state{gpus: at.gpus - width, stages: max(0, at.stages-1), layer: to, met: true}
	from := c.at(next.gpus, next.stages, to)
	next.cost = c.behind[from]
	if at.met {
		return next, time < bound && next.cost+2*time-bound == at.cost
	}
	if time == bound && next.cost+bound == at.cost {
		return next, true
	}
	next.met, next.cost = false, c.through[from]
	return next, next.cost+time == at.cost
}

// fits reports whether any cut for a number of nodes fits into memory.
func (s Search) fits(nodes int) bool {
	return s.slots(nodes).fits(math.MaxInt64)
}

// best are the best cuts for all sizes; nil for one that none fits.
func (s Search) best(smallest, largest int) []*pipeline.Template {
	found := make([]*pipeline.Template, largest-smallest+1)
	if s.GPUsPerNode == 1 {
		found = single(s.Profile, smallest, largest)
	}
	for i := range found {
		if found[i] == nil || !s.fitsAsItIs(found[i]) {
			found[i] = s.slots(smallest + i).best()
		}
	}
	return found
}

func (s Search) fitsAsItIs(t *pipeline.Template) bool {
	for i, stage := range t.Stages {
		if !s.holds(stage.From, stage.To, stage.GPUs, len(t.Stages)-i) {
			return false
		}
	}
	return true
}
