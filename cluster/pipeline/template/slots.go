package template

import (
	"iter"
	"math"
	"slices"

	"github.com/phos-gpu/phos/cluster/pipeline"
)

// slots places layers on the GPUs of some nodes, from the last GPU and the last layer to the first:
// an exact dynamic programme over GPUs given out and layers placed. Its stages are no slower than
// high. One of them counts as the slowest: it is no faster than low, and those behind it are faster
// than high, because of equally slow stages the last counts.
//
// An iteration's time is a sum over stages: with B for the slowest and N microbatches it is N·B,
// and w for each stage before the slowest, and 2w-B for each behind it. Where low and high are one
// number that is B, and the sum is exact. Where they are not, low counts for B and the sum is a
// bound: it is not above the truth.
//
// What a stage keeps in memory depends on how many stages there are behind it. So there are several
// ways to place the same layers on the same GPUs: those in more stages are kept where they cost
// less.
type slots struct {
	Search
	nodes        int
	gpus         int // of all nodes
	microbatches int
	widths       []int
	counted      int32   // 1 where stages are counted: where memory matters
	fewest       []int   // stages that so many GPUs make at least
	least        []int64 // what all stages before a layer take at least, together

	low, high int64
	limit     int64 // ways to more than it are left out
	furthest  []int // the layer that so many GPUs from the first on come to at most

	// ways are those of all states: GPUs given out, first layer, and whether the slowest stage is
	// among them. begins has where each state's begin.
	ways            []way
	begins          []int32
	behind, through []way // of the state at hand
}

// way is how layers can be placed. Of a state, each has more stages than the one before it, and
// costs less.
type way struct {
	cost   int64
	stages int32
}

// placed is a stage that can be put before others.
type placed struct {
	width, to int
	time      int64
	inFlight  int32 // microbatches that there is memory for
}

const impossible = math.MaxInt64 / 4

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
			// A stage's time is rounded up once, and not for each layer.
			took = min(took, s.Profile.Time(layer, layer+1, width)-min(1, int64(width-1)))
		}
		c.least[layer+1] = c.least[layer] + max(took, 0)
	}
	c.furthest = make([]int, c.gpus+1)
	c.begins = make([]int32, 2*(c.gpus+1)*(s.Profile.Len()+1)+1)
	return c
}

// state numbers the states; through says that the slowest stage is among those that have been
// placed.
func (c *slots) state(gpus, layer int, through bool) int {
	at := 2 * (gpus*(c.Profile.Len()+1) + layer)
	if through {
		at++
	}
	return at
}

func (c *slots) of(state int) []way { return c.ways[c.begins[state]:c.begins[state+1]] }

// run places all layers on all GPUs. It answers the least that an iteration takes, impossible where
// it is over the limit.
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

// reach finds how far the first GPUs come, whatever is behind them, and answers how far all of them
// do.
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

// fill is where a stage from a layer on ends at most.
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

// place finds the ways to a state.
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

// stages are those from a layer on that can be put before gpus less their width.
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

// slowest is what the slowest stage costs: B for each microbatch. Of what it takes more than low,
// that much is certain which the stages behind it, one for each GPU at most, do not save.
func (c *slots) slowest(behind int, time int64) int64 {
	return int64(c.microbatches)*c.low + int64(c.microbatches-behind)*(time-c.low)
}

// restBehind is what the stages before a layer cost at least when the slowest is one of them: each
// of the others that is behind that one saves what it is faster, but no more than high less its
// time.
func (c *slots) restBehind(gpus, layer int) int64 {
	others := min(c.gpus-gpus, layer) - 1
	return int64(c.microbatches)*c.low + 2*(c.least[layer]-c.low) - int64(others)*c.high
}

// add adds a way to those of a state, unless one that is no worse is there, or what is still to
// come takes it over the limit.
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

// maxInFlight is for how many microbatches in flight a stage has memory.
func (c *slots) maxInFlight(from, to, width int) int32 {
	if c.GPUMemoryBytes == 0 {
		return math.MaxInt32
	}
	return int32(c.Profile.InFlight(from, to, width, c.GPUMemoryBytes))
}

// trace follows the least that an iteration takes back to its stages; slowest is the one that
// counted as that.
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

// point is where the way back has come to.
type point struct {
	gpus, layer int
	way         way
	through     bool // the slowest stage is behind it
}

// comesFrom reports whether a way has a stage as its first, and where it comes from.
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
