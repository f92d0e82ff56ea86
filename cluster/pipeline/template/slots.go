package template

import (
	"iter"
	"math"
	"slices"

	"github.com/phos-gpu/phos/cluster/pipeline"
)

// slots places layers on the GPUs of some nodes, from the last GPU and layer to the first: an exact
// dynamic program over GPUs and layers placed. No stage is slower than high. One stage counts as
// the slowest: it is no faster than low, and the stages behind it are faster than high, because the
// last of equally slow stages counts.
//
// An iteration's time is a sum over stages: with B for the slowest stage and N microbatches it is
// N·B, plus w for each stage before the slowest, plus 2w-B for each behind it. If low equals high,
// that is B, and the sum is exact. Otherwise low is used for B and the sum is a lower bound.
//
// A stage's memory depends on the number of stages behind it. So a state has several ways to place
// the same layers on the same GPUs: those with more stages are kept if they cost less.
type slots struct {
	Search
	nodes        int
	gpus         int // of all nodes
	microbatches int
	widths       []int
	counted      int32   // 1 if stages are counted, because memory is limited
	fewest       []int   // the fewest stages that use so many GPUs
	least        []int64 // the least total time of all stages before a layer

	low, high int64
	limit     int64 // ways above it are dropped
	furthest  []int // the last layer that so many GPUs, from the first on, can reach

	// ways are those of all states: GPUs used, first layer, and whether the slowest stage is among
	// them. begins has where each state's ways begin.
	ways            []way
	begins          []int32
	behind, through []way // of the current state
}

// way is one placement of layers. Within a state, each way has more stages than the one before it,
// and costs less.
type way struct {
	cost   int64
	stages int32
}

// placed is a stage that can be put before others.
type placed struct {
	width, to int
	time      int64
	inFlight  int32 // microbatches that fit into memory
}

const impossible = math.MaxInt64 / 4

// slots returns the table for a number of nodes.
func (s Search) slots(nodes int) *slots {
	c := &slots{Search: s, nodes: nodes, gpus: nodes * s.GPUsPerNode, widths: s.Profile.Widths(s.GPUsPerNode)}
	c.microbatches = PlanningMicrobatches * c.gpus
	if s.GPUMemoryBytes > 0 {
		c.counted = 1
	}
	c.fewest = s.fewestStages(c.gpus)
	c.least = make([]int64, s.Profile.Len()+1)
	for layer := range s.Profile.Len() {
		took := int64(math.MaxInt64)
		for _, width := range c.widths {
			// A stage's time is rounded up once, not for each layer.
			took = min(took, s.Profile.Time(layer, layer+1, width)-min(1, int64(width-1)))
		}
		c.least[layer+1] = c.least[layer] + max(took, 0)
	}
	c.furthest = make([]int, c.gpus+1)
	c.begins = make([]int32, 2*(c.gpus+1)*(s.Profile.Len()+1)+1)
	return c
}

// state returns the index of a state; through says that the slowest stage has been placed.
func (c *slots) state(gpus, layer int, through bool) int {
	at := 2 * (gpus*(c.Profile.Len()+1) + layer)
	if through {
		at++
	}
	return at
}

// of returns the ways of a state.
func (c *slots) of(state int) []way { return c.ways[c.begins[state]:c.begins[state+1]] }

// run places all layers on all GPUs. It returns the least time of an iteration; impossible if it is
// above the limit.
func (c *slots) run(low, high, limit int64) int64 {
	c.low, c.high, c.limit = low, high, limit
	c.ways = c.ways[:0]
	if c.reach() < c.Profile.Len() {
		return impossible
	}
	for gpus := range c.gpus + 1 {
		for layer := range c.Profile.Len() + 1 {
			c.behind, c.through = c.behind[:0], c.through[:0]
			switch {
			case gpus == 0 && layer == c.Profile.Len():
				c.behind = append(c.behind, way{})
			case gpus > 0 && c.fewest[c.gpus-gpus] <= layer && layer <= c.furthest[c.gpus-gpus]:
				c.place(gpus, layer)
			}
			c.ways = append(c.ways, c.behind...)
			c.begins[c.state(gpus, layer, false)+1] = int32(len(c.ways))
			c.ways = append(c.ways, c.through...)
			c.begins[c.state(gpus, layer, true)+1] = int32(len(c.ways))
		}
	}
	if all := c.of(c.state(c.gpus, 0, true)); len(all) > 0 {
		return all[len(all)-1].cost
	}
	return impossible
}

// reach computes how far the first GPUs reach, whatever is behind them, and returns how far all of
// them do.
func (c *slots) reach() int {
	for gpus := 1; gpus <= c.gpus; gpus++ {
		c.furthest[gpus] = 0
		inFlight := c.fewest[c.gpus-gpus] + 1
		for _, width := range c.widths {
			if c.onOneNode(gpus, width) {
				c.furthest[gpus] = max(c.furthest[gpus], c.fill(c.furthest[gpus-width], width, inFlight))
			}
		}
	}
	return c.furthest[c.gpus]
}

// fill returns where a stage from a layer on ends at most.
func (c *slots) fill(from, width, inFlight int) int {
	low, high := from, c.Profile.Len()
	for low < high {
		to := (low + high + 1) / 2
		if c.Profile.Time(from, to, width) <= c.high && c.holds(from, to, width, inFlight) {
			low = to
		} else {
			high = to - 1
		}
	}
	return low
}

// place computes the ways of a state.
func (c *slots) place(gpus, from int) {
	for s := range c.stages(gpus, from) {
		for _, w := range c.of(c.state(gpus-s.width, s.to, false)) {
			if w.stages >= s.inFlight {
				break
			}
			if s.time < c.high {
				c.behind = c.add(
					c.behind,
					way{w.cost + 2*s.time - c.low, w.stages + c.counted},
					c.restBehind(gpus, from),
				)
			}
			if s.time >= c.low {
				c.through = c.add(
					c.through,
					way{w.cost + c.slowest(gpus-s.width, s.time), w.stages + c.counted},
					c.least[from],
				)
			}
		}
		for _, w := range c.of(c.state(gpus-s.width, s.to, true)) {
			if w.stages >= s.inFlight {
				break
			}
			c.through = c.add(c.through, way{w.cost + s.time, w.stages + c.counted}, c.least[from])
		}
	}
}

// stages yields the stages from a layer on that can be put before gpus less their width.
func (c *slots) stages(gpus, from int) iter.Seq[placed] {
	return func(yield func(placed) bool) {
		for _, width := range c.widths {
			if !c.onOneNode(gpus, width) {
				continue
			}
			for to := from + 1; to <= c.Profile.Len(); to++ {
				s := placed{width, to, c.Profile.Time(from, to, width), c.maxInFlight(from, to, width)}
				if s.time > c.high || s.inFlight < 1 {
					break
				}
				if !yield(s) {
					return
				}
			}
		}
	}
}

// slowest returns the cost of the slowest stage: B for each microbatch. Of its time above low, at
// least the part counts that the stages behind it, one for each GPU at most, do not save.
func (c *slots) slowest(behind int, time int64) int64 {
	return int64(c.microbatches)*c.low + int64(c.microbatches-behind)*(time-c.low)
}

// restBehind returns the least cost of the stages before a layer if the slowest is one of them:
// each other stage behind it saves the difference of their times, at most high less its own time.
func (c *slots) restBehind(gpus, layer int) int64 {
	others := min(c.gpus-gpus, layer) - 1
	return int64(c.microbatches)*c.low + 2*(c.least[layer]-c.low) - int64(others)*c.high
}

// add adds a way to those of a state, unless there is one that is no worse, or it would exceed the
// limit.
func (c *slots) add(ways []way, w way, rest int64) []way {
	if w.cost+rest > c.limit {
		return ways
	}
	at := len(ways)
	for at > 0 && ways[at-1].stages > w.stages {
		at--
	}
	if at > 0 && ways[at-1].cost <= w.cost {
		return ways
	}
	if at > 0 && ways[at-1].stages == w.stages {
		at--
	}
	worse := at
	for worse < len(ways) && ways[worse].cost >= w.cost {
		worse++
	}
	return slices.Replace(ways, at, worse, w)
}

// maxInFlight returns for how many microbatches in flight a stage has memory.
func (c *slots) maxInFlight(from, to, width int) int32 {
	if c.GPUMemoryBytes == 0 {
		return math.MaxInt32
	}
	return int32(c.Profile.InFlight(from, to, width, c.GPUMemoryBytes))
}

// trace follows the optimal way back to its stages; slowest is the one that counted as that.
func (c *slots) trace() (found []pipeline.Stage, slowest int) {
	all := c.of(c.state(c.gpus, 0, true))
	at := point{gpus: c.gpus, way: all[len(all)-1], through: true}
	for at.gpus > 0 {
		for s := range c.stages(at.gpus, at.layer) {
			if next, comes := c.comesFrom(at, s); comes {
				found = append(
					found,
					pipeline.Stage{
						From: at.layer,
						To:   s.to,
						GPUs: s.width,
						Time: s.time,
						Node: c.nodes - 1 - (at.gpus-1)/c.GPUsPerNode,
					},
				)
				if at.through && !next.through {
					slowest = len(found) - 1
				}
				at = next
				break
			}
		}
	}
	return found, slowest
}

// point is a position on the way back.
type point struct {
	gpus, layer int
	way         way
	through     bool // the slowest stage is behind it
}

// comesFrom reports whether a way has s as its first stage, and where it comes from.
func (c *slots) comesFrom(at point, s placed) (next point, comes bool) {
	behind := at.gpus - s.width
	before := func(through bool, cost int64) bool {
		next = point{behind, s.to, way{at.way.cost - cost, at.way.stages - c.counted}, through}
		return next.way.stages < s.inFlight && slices.Contains(c.of(c.state(behind, s.to, through)), next.way)
	}
	if at.through {
		comes = before(true, s.time) || s.time >= c.low && before(false, c.slowest(behind, s.time))
	} else {
		comes = s.time < c.high && before(false, 2*s.time-c.low)
	}
	return next, comes
}
