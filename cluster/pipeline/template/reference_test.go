package template

import (
	"cmp"
	"context"
	"iter"
	"math"
	"math/rand"
	"slices"
	"testing"
	"time"

	"github.com/phos-gpu/phos/cluster/pipeline"
	"github.com/phos-gpu/phos/tests/harness/rounds"
)

// TestAgainstReference compares templates with those of the reference, cut by cut.
func TestAgainstReference(t *testing.T) {
	r := rand.New(rand.NewSource(7))
	found, all := 0, 0
	for range rounds.Of(100, 2000) {
		s := randomSearch(t, r)
		for range 3 {
			nodes := 1 + r.Intn(max(1, min(12, s.Profile.Len()/s.stagesOfANode())))
			if all++; sameAsReference(t, s, nodes) {
				found++
			}
		}
	}
	if found < all/4 || found == all {
		t.Errorf("%d of %d searches find a cut: both kinds should be tried", found, all)
	}
}

// sameAsReference compares one template, and reports whether there is one.
func sameAsReference(t *testing.T, s Search, nodes int) bool {
	t.Helper()
	got, want := s.slots(context.Background(), nodes).best(), s.reference(nodes).best()
	if (got == nil) != (want == nil) || got != nil && !slices.Equal(got.Stages, want.Stages) {
		t.Fatalf("%d nodes of %d GPUs with %d bytes: %+v, the reference has %+v; layers %+v",
			nodes, s.GPUsPerNode, s.GPUMemoryBytes, got, want, s.Profile.Layers)
	}
	return got != nil
}

// randomSearch returns a search over equal, similar or very different layers.
func randomSearch(t *testing.T, r *rand.Rand) Search {
	t.Helper()
	times := []int{1, 3, 20, 1_000_000}[r.Intn(4)]
	measured := [][]int{nil, {2}, {2, 4}, {3}, {2, 3, 4, 8}, {8}}[r.Intn(6)]
	reduce := int64(1 + times/[]int{1, 5, 40}[r.Intn(3)])
	var layers []pipeline.Layer
	var state int64
	for range 2 + r.Intn(50) {
		l := pipeline.Layer{
			Forward: time.Duration(1 + r.Intn(times)), Backward: time.Duration(r.Intn(2 * times)),
			StateBytes: 20 + r.Int63n(40), ActivationBytes: r.Int63n(20), InNode: map[int]time.Duration{},
		}
		for _, width := range measured {
			l.InNode[width] = time.Duration(r.Int63n(reduce))
		}
		state += l.StateBytes
		layers = append(layers, l)
	}
	p, err := pipeline.NewProfile(layers)
	if err != nil {
		t.Fatal(err)
	}
	memory := []int64{0, state / 8, state / 3, state, 4 * state}[r.Intn(5)]
	return Search{Profile: p, GPUsPerNode: []int{1, 2, 3, 4, 8}[r.Intn(5)], GPUMemoryBytes: memory}
}

// reference is the search for templates as it was before it had bounds of the rests and bands: it
// computes all points, the layers of each in turn. Results must be the same, of equally good cuts
// too. A point has ways for each number of GPUs from the last on.
type reference struct {
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

// laid is a stage that can be put before others.
type laid struct {
	width, to int
	time      int64
	inFlight  int32 // microbatches that fit into memory
}

// reference returns the table for a number of nodes.
func (s Search) reference(nodes int) *reference {
	c := &reference{Search: s, nodes: nodes, gpus: nodes * s.GPUsPerNode, widths: s.Profile.Widths(s.GPUsPerNode)}
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

// state returns the index of a state; through says that the slowest stage has been laid.
func (c *reference) state(gpus, layer int, through bool) int {
	at := 2 * (gpus*(c.Profile.Len()+1) + layer)
	if through {
		at++
	}
	return at
}

// of returns the ways of a state.
func (c *reference) of(state int) []way { return c.ways[c.begins[state]:c.begins[state+1]] }

// run places all layers on all GPUs. It returns the least time of an iteration; impossible if it is
// above the limit.
func (c *reference) run(low, high, limit int64) int64 {
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
func (c *reference) reach() int {
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
func (c *reference) fill(from, width, inFlight int) int {
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
func (c *reference) place(gpus, from int) {
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
func (c *reference) stages(gpus, from int) iter.Seq[laid] {
	return func(yield func(laid) bool) {
		for _, width := range c.widths {
			if !c.onOneNode(gpus, width) {
				continue
			}
			for to := from + 1; to <= c.Profile.Len(); to++ {
				s := laid{width, to, c.Profile.Time(from, to, width), c.maxInFlight(from, to, width)}
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
func (c *reference) slowest(behind int, time int64) int64 {
	return int64(c.microbatches)*c.low + int64(c.microbatches-behind)*(time-c.low)
}

// restBehind returns the least cost of the stages before a layer if the slowest is one of them:
// each other stage behind it saves the difference of their times, at most high less its own time.
func (c *reference) restBehind(gpus, layer int) int64 {
	others := min(c.gpus-gpus, layer) - 1
	return int64(c.microbatches)*c.low + 2*(c.least[layer]-c.low) - int64(others)*c.high
}

// add adds a way to those of a state, unless there is one that is no worse, or it would exceed the
// limit.
func (c *reference) add(ways []way, w way, rest int64) []way {
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
func (c *reference) maxInFlight(from, to, width int) int32 {
	if c.GPUMemoryBytes == 0 {
		return math.MaxInt32
	}
	return int32(c.Profile.InFlight(from, to, width, c.GPUMemoryBytes))
}

// trace follows the optimal way back to its stages; slowest is the one that counted as that.
func (c *reference) trace() (found []pipeline.Stage, slowest int) {
	all := c.of(c.state(c.gpus, 0, true))
	at := spot{gpus: c.gpus, way: all[len(all)-1], through: true}
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

// spot is a position on the way back.
type spot struct {
	gpus, layer int
	way         way
	through     bool // the slowest stage is behind it
}

// comesFrom reports whether a way has s as its first stage, and where it comes from.
func (c *reference) comesFrom(at spot, s laid) (next spot, comes bool) {
	behind := at.gpus - s.width
	before := func(through bool, cost int64) bool {
		next = spot{behind, s.to, way{at.way.cost - cost, at.way.stages - c.counted}, through}
		return next.way.stages < s.inFlight && slices.Contains(c.of(c.state(behind, s.to, through)), next.way)
	}
	if at.through {
		comes = before(true, s.time) || s.time >= c.low && before(false, c.slowest(behind, s.time))
	} else {
		comes = s.time < c.high && before(false, 2*s.time-c.low)
	}
	return next, comes
}

// referenceBisection is bisection with it.
type referenceBisection struct {
	*reference
	open  []span
	found *pipeline.Template
	best  pipeline.Line // that of found: the least time, and of these the fastest slowest stage
}

// best returns the best cut, of equal ones the one with the fastest slowest stage; nil if none
// fits.
func (c *reference) best() *pipeline.Template {
	b := &referenceBisection{reference: c}
	slowest := int64(0)
	for _, width := range c.widths {
		slowest = max(slowest, c.Profile.Time(0, c.Profile.Len(), width))
	}
	low := b.fastest(slowest)
	for high := low; ; high = min(high+high/4+1, slowest) {
		if b.try(low, high); b.found != nil || high == slowest {
			break
		}
	}
	if b.found == nil {
		return nil
	}
	// All slower ones take longer: there are at most as many stages as GPUs and layers.
	stages := min(c.gpus, c.Profile.Len())
	b.open = nil
	b.try(low, (b.time()-c.least[c.Profile.Len()])/int64(c.microbatches-stages))
	for len(b.open) > 0 {
		s := b.next()
		b.try(s.low, s.divide)
		b.try(s.divide+1, s.high)
	}
	return b.found
}

// fastest returns a lower bound of the slowest stage's time.
func (b *referenceBisection) fastest(slowest int64) int64 {
	low := int64(1)
	for low < slowest {
		if b.high = low + (slowest-low)/2; b.reach() == b.Profile.Len() {
			slowest = b.high
		} else {
			low = b.high + 1
		}
	}
	return low
}

// time returns the best time found so far.
func (b *referenceBisection) time() int64 {
	if b.found == nil {
		return impossible - 1
	}
	return b.best.At(b.microbatches)
}

// limit returns the most that an iteration may take, with a slowest stage from low on, to improve
// on the best.
func (b *referenceBisection) limit(low int64) int64 {
	if b.found != nil && low >= b.best.Each {
		return b.time() - 1
	}
	return b.time()
}

// try bounds a span, and keeps it if it may contain an improvement.
func (b *referenceBisection) try(low, high int64) {
	if low > high {
		return
	}
	s := span{low: low, high: high, atLeast: b.run(low, high, b.limit(low))}
	if s.atLeast == impossible {
		return
	}
	stages, counted := b.trace()
	t := &pipeline.Template{Nodes: b.nodes, Microbatches: b.microbatches, Stages: stages}
	if took, line := t.Time(), t.Line(); took < b.time() || took == b.time() && line.Each < b.best.Each {
		b.found, b.best = t, line
	}
	// The bound is below the cut's time for one of three reasons: another stage is slower than the
	// one that counted as slowest; another stage is as slow and behind it; or the counted stage is
	// slower than low.
	switch slowest, took := t.Bottleneck(), stages[counted].Time; {
	case stages[slowest].Time > took:
		s.divide = took + (stages[slowest].Time-took)/2
	case slowest != counted:
		s.divide = took
	case took > low:
		s.divide = took - 1
	default:
		return
	}
	b.open = append(b.open, s)
}

// next removes and returns the span with the least bound, and drops those without improvement.
func (b *referenceBisection) next() span {
	b.open = slices.DeleteFunc(b.open, func(s span) bool { return s.atLeast > b.limit(s.low) })
	if len(b.open) == 0 {
		return span{low: 1}
	}
	at := 0
	for i, s := range b.open {
		if cmp.Or(cmp.Compare(s.atLeast, b.open[at].atLeast), cmp.Compare(s.low, b.open[at].low)) < 0 {
			at = i
		}
	}
	s := b.open[at]
	b.open = slices.Delete(b.open, at, at+1)
	return s
}
