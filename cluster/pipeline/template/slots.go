package template

import (
	"context"
	"math"
)

// slots places layers on the GPUs of some nodes, from the last GPU and layer to the first: an exact
// dynamic program over points. No stage is slower than high. One stage counts as the slowest: it is
// no faster than low, and the stages behind it are faster than high, because the last of equally
// slow stages counts.
//
// An iteration's time is a sum over stages: with B for the slowest stage and N microbatches it is
// N·B, plus w for each stage before the slowest, plus 2w-B for each behind it. If low equals high,
// that is B, and the sum is exact. Otherwise low is used for B and the sum is a lower bound.
//
// A stage's memory depends on the number of stages behind it. So a point has several ways to place
// the layers behind it on the GPUs behind it: those with more stages are kept if they cost less.
//
// Most points can neither be reached from the first layer (reach.go) nor be part of a cut that is
// fast enough (rests.go), and have no ways.
type slots struct {
	Search
	ctx          context.Context
	nodes        int
	gpus         int // of all nodes
	microbatches int
	widths       []int
	counted      int32 // 1 if stages are counted, because memory is limited
	fewest       []int // the fewest stages that use so many GPUs
	work         int64 // at least the time of all stages

	low, high, limit int64

	furthest, nearest []int  // see reach.go
	hints             []int  // by width: where its last stage ended
	bands             []band // by point's GPUs
	points            int    // in all bands
	spans             []spans
	rests

	// ways are those of all points, from the last GPU's on. begins has where those of each point
	// and kind begin, and full the layers of the points that have any.
	ways            []way
	begins          []int32
	full            []int32
	next            []int // by width: where the search in full goes on
	behind, through []way // of the current point
}

// way is one placement of layers. Within a point and kind, each way has more stages than the one
// before it, and costs less.
type way struct {
	cost   int64
	stages int32
}

const impossible = math.MaxInt64 / 4

// slots returns the table for a number of nodes. It finds nothing once ctx is done.
func (s Search) slots(ctx context.Context, nodes int) *slots {
	c := &slots{
		Search: s, ctx: ctx, nodes: nodes, gpus: nodes * s.GPUsPerNode, widths: s.Profile.Widths(s.GPUsPerNode),
	}
	c.microbatches = PlanningMicrobatches * c.gpus
	if s.GPUMemoryBytes > 0 {
		c.counted = 1
	}
	c.fewest = s.fewestStages(c.gpus)
	c.work = s.leastWork(c.widths)
	c.furthest, c.nearest = make([]int, c.gpus+1), make([]int, c.gpus+1)
	c.bands, c.hints = make([]band, c.gpus+1), make([]int, len(c.widths))
	c.next, c.spans = make([]int, len(c.widths)), make([]spans, len(c.widths))
	c.rests.init(c)
	return c
}

// leastWork returns a lower bound of the time of all stages of any cut.
func (s Search) leastWork(widths []int) (all int64) {
	for layer := range s.Profile.Len() {
		took := int64(math.MaxInt64)
		for _, width := range widths {
			// A stage's time is rounded up once, not for each layer.
			took = min(took, s.Profile.Time(layer, layer+1, width)-min(1, int64(width-1)))
		}
		all += max(took, 0)
	}
	return all
}

// run places all layers on all GPUs. It returns the least time of an iteration; impossible if it is
// above the limit.
//
// The bound of the rests is often the time itself. So low limits are tried first: with them few
// points have ways.
func (c *slots) run(low, high, limit int64) int64 {
	c.low, c.high = low, high
	if c.reach() < c.Profile.Len() || !c.bound() {
		return impossible
	}
	least := c.whole()
	for more := int64(c.microbatches + c.gpus); least <= limit; more *= 8 {
		c.limit = limit
		if more < least {
			c.limit = min(limit, least+more)
		}
		if cost := c.place(); cost < impossible || c.limit == limit {
			return cost
		}
	}
	return impossible
}

// place computes the ways of all points, and returns the least time of an iteration.
func (c *slots) place() int64 {
	c.ways, c.begins, c.full = c.ways[:0], append(c.begins[:0], 0), c.full[:0]
	for used := c.gpus; used >= 0; used-- {
		if c.ctx.Err() != nil {
			return impossible
		}
		c.placeRow(used)
	}
	if all := c.of(0, 0, true); len(all) > 0 {
		return all[len(all)-1].cost
	}
	return impossible
}

// placeRow computes the ways of all points behind so many GPUs.
func (c *slots) placeRow(used int) {
	b := &c.bands[used]
	b.begins, b.full = len(c.begins)-1, len(c.full)
	for i, width := range c.widths {
		if used+width <= c.gpus {
			c.next[i] = c.bands[used+width].full
		}
	}
	for layer := b.low; layer <= b.high; layer++ {
		c.behind, c.through = c.behind[:0], c.through[:0]
		if used == c.gpus {
			c.behind = append(c.behind, way{})
		} else {
			c.placePoint(used, layer)
		}
		if len(c.behind)+len(c.through) > 0 {
			c.full = append(c.full, int32(layer))
		}
		c.ways = append(c.ways, c.behind...)
		c.begins = append(c.begins, int32(len(c.ways)))
		c.ways = append(c.ways, c.through...)
		c.begins = append(c.begins, int32(len(c.ways)))
	}
	b.fullEnd = len(c.full)
}

// of returns the ways of a point; through says that the slowest stage is behind it.
func (c *slots) of(used, layer int, through bool) []way {
	b := &c.bands[used]
	if layer < b.low || layer > b.high {
		return nil
	}
	at := b.begins + 2*(layer-b.low)
	if through {
		at++
	}
	return c.ways[c.begins[at]:c.begins[at+1]]
}

// placePoint computes the ways of a point from those behind each stage that can begin there.
func (c *slots) placePoint(used, layer int) {
	before, slowest := c.restsAt(used, layer)
	if before >= impossible && slowest >= impossible {
		return
	}
	for i, width := range c.widths {
		if used+width > c.gpus || !c.onOneNode(used+width, width) {
			continue
		}
		b := &c.bands[used+width]
		for c.next[i] < b.fullEnd && int(c.full[c.next[i]]) <= layer {
			c.next[i]++
		}
		for _, to := range c.full[c.next[i]:b.fullEnd] {
			if int(to) > c.spans[i].end[layer] {
				break
			}
			c.put(used, placed{layer, int(to), width}, before, slowest)
		}
	}
}

// placed is a stage that is put before others.
type placed struct{ from, to, width int }

// put adds the ways of a point that begin with a stage. before and slowest bound what the stages
// before it cost, without and with the slowest one.
func (c *slots) put(used int, s placed, before, slowest int64) {
	time, inFlight, behind := c.Profile.Time(s.from, s.to, s.width), c.maxInFlight(s), used+s.width
	for _, w := range c.of(behind, s.to, false) {
		if w.stages >= inFlight {
			break
		}
		if time < c.high {
			c.behind = c.add(c.behind, way{w.cost + 2*time - c.low, w.stages + c.counted}, slowest)
		}
		if time >= c.low {
			c.through = c.add(c.through, way{w.cost + c.slowest(behind, time), w.stages + c.counted}, before)
		}
	}
	for _, w := range c.of(behind, s.to, true) {
		if w.stages >= inFlight {
			break
		}
		c.through = c.add(c.through, way{w.cost + time, w.stages + c.counted}, before)
	}
}

// slowest returns the cost of the slowest stage, which ends on so many GPUs: B for each microbatch.
// Of its time above low, at least the part counts that the stages behind it, one for each GPU at
// most, do not save.
func (c *slots) slowest(end int, time int64) int64 {
	return int64(c.microbatches)*c.low + c.steepness(end)*(time-c.low)
}

// steepness returns how often the time of the slowest stage above low counts at least.
func (c *slots) steepness(end int) int64 { return int64(c.microbatches - (c.gpus - end)) }

// add adds a way to those of a point, unless there is one that is no worse, or it would exceed the
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
	return replace(ways, at, worse, w)
}

// replace replaces the ways from at to end-1 by one.
func replace(ways []way, at, end int, w way) []way {
	if at == end {
		ways = append(ways, w)
		copy(ways[at+1:], ways[at:])
		ways[at] = w
		return ways
	}
	ways[at] = w
	return append(ways[:at+1], ways[end:]...)
}

// maxInFlight returns for how many microbatches in flight a stage has memory.
func (c *slots) maxInFlight(s placed) int32 {
	if c.GPUMemoryBytes == 0 {
		return math.MaxInt32
	}
	return int32(c.Profile.InFlight(s.from, s.to, s.width, c.GPUMemoryBytes))
}
