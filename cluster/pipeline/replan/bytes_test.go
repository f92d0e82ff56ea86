package replan

import (
	"fmt"
	"math"
	"math/bits"
	"math/rand"
	"slices"
	"testing"
	"time"

	"github.com/phos-gpu/phos/cluster/pipeline"
	"github.com/phos-gpu/phos/scheduler/cluster"
	"github.com/phos-gpu/phos/tests/harness/rounds"
)

// equalModel has equal layers.
func equalModel(t testing.TB, layers int, bytes int64) *pipeline.Profile {
	t.Helper()
	all := make([]pipeline.Layer, layers)
	for i := range all {
		all[i] = pipeline.Layer{Name: fmt.Sprint(i), Forward: time.Millisecond, StateBytes: bytes}
	}
	p, err := pipeline.NewProfile(all)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestPartnerOfMerge: the node that is left of a pipeline joins the one where it holds what is
// needed.
func TestPartnerOfMerge(t *testing.T) {
	plan := planOf(t, equalModel(t, 6, 1000), 1, 2, 5, 2, 2, 3)
	r := recovered(t, plan, Change{Dead: ids(2, 6)})
	sound(t, plan, Change{Dead: ids(2, 6)}, r)
	if r.Bytes != 0 {
		t.Errorf("%d bytes are sent, want 0: %+v", r.Bytes, r.Plan.Pipelines)
	}
	want := []Step{{1, Merged, 2, 0}, {2, Merged, 3, 3}}
	if !slices.Equal(r.Steps, want) {
		t.Errorf("got steps %+v, want %+v", r.Steps, want)
	}
}

// TestSteps checks what is said about each pipeline.
func TestSteps(t *testing.T) {
	for _, each := range []struct {
		name     string
		faults   int
		smallest int
		largest  int
		sizes    []int
		change   Change
		want     []Step
	}{
		{"smaller", 1, 2, 8, []int{3, 4}, Change{Dead: ids(2)}, []Step{{0, Reinstantiated, 3, 2}}},
		{"borrowed", 1, 2, 8, []int{2, 3}, Change{Dead: ids(0)}, []Step{{0, Borrowed, 2, 2}, {1, Lent, 3, 2}}},
		{"filled", 1, 2, 8, []int{2, 3}, Change{Dead: ids(0), Joined: ids(9)}, []Step{{0, Filled, 2, 2}}},
		{"made", 1, 2, 3, []int{3, 3}, Change{Joined: ids(8, 9)}, []Step{{-1, Made, 0, 2}}},
		{"gone", 0, 2, 4, []int{2, 4}, Change{Dead: ids(0, 1)}, []Step{{0, Gone, 2, 0}}},
		{"split", 1, 2, 4, []int{2, 4}, Change{Dead: ids(0, 1)}, []Step{{0, Gone, 2, 0}, {1, Lent, 4, 2}, {-1, Split, 0, 2}}},
	} {
		plan := planOf(t, model(t, 12), each.faults, each.smallest, each.largest, each.sizes...)
		if r := recovered(t, plan, each.change); !slices.Equal(r.Steps, each.want) {
			t.Errorf("%s: got %+v, want %+v", each.name, r.Steps, each.want)
		}
	}
}

// sentBytes returns all bytes that nodes are sent, also those that a checkpoint must supply.
func sentBytes(r *Result) (bytes int64) {
	bytes = r.Bytes
	for _, each := range r.Lost {
		bytes += each.Bytes * int64(len(each.To))
	}
	return bytes
}

// fewestBytes returns the fewest bytes for pipelines of the same sizes, by trying every way to put
// nodes on places: a dynamic program over sets of nodes.
func fewestBytes(before *pipeline.Plan, nodes []cluster.NodeID, sizes []int) int64 {
	had := layersOf(before)
	best := make([]int64, 1<<len(nodes))
	for set := range best {
		if set > 0 {
			best[set] = math.MaxInt64
		}
	}
	var needs [][]int
	for _, size := range sizes {
		for place := range size {
			var layers []int
			for _, s := range before.Template(size).Stages {
				for layer := s.From; layer < s.To && s.Node == place; layer++ {
					layers = append(layers, layer)
				}
			}
			needs = append(needs, layers)
		}
	}
	least := int64(math.MaxInt64)
	for set := range best {
		placed := bits.OnesCount(uint(set))
		if placed == len(needs) {
			least = min(least, best[set])
			continue
		}
		bytes := best[set]
		if bytes == math.MaxInt64 || placed > len(needs) {
			continue
		}
		for i, node := range nodes {
			if set&(1<<i) != 0 {
				continue
			}
			cost := bytes
			for _, layer := range needs[placed] {
				if !had[key{node, layer}] {
					cost += before.Profile.Layers[layer].StateBytes
				}
			}
			best[set|1<<i] = min(best[set|1<<i], cost)
		}
	}
	return least
}

// TestFewestBytes kills every set of nodes of every plan of small clusters, and compares the bytes
// with those of all assignments.
func TestFewestBytes(t *testing.T) {
	cases, most := 0, 8
	if rounds.All() {
		most = 9
	}
	for _, p := range []*pipeline.Profile{equalModel(t, 10, 1000), model(t, 10)} {
		for smallest := 1; smallest <= 3; smallest++ {
			for faults := 0; faults <= 2; faults++ {
				for nodes := (faults + 1) * smallest; nodes <= most; nodes++ {
					cases += fewestOf(t, p, smallest, faults, nodes)
				}
			}
		}
	}
	if cases < 10_000 {
		t.Errorf("only %d recoveries", cases)
	}
}

// fewestOf compares all recoveries of clusters of one size, and returns how many there are.
func fewestOf(t *testing.T, p *pipeline.Profile, smallest, faults, nodes int) (cases int) {
	t.Helper()
	partitions(smallest, nodes, nodes-faults*smallest, nil, func(sizes []int) {
		if len(sizes) <= faults {
			return
		}
		plan := planOf(t, p, faults, smallest, nodes-faults*smallest, sizes...)
		plan.Spec.Microbatches = 60 // few enough to try all splits
		for set := 1; set < 1<<nodes; set++ {
			if nodes-bits.OnesCount(uint(set)) < (faults+1)*smallest {
				continue
			}
			var c Change
			var left []cluster.NodeID
			for i := range nodes {
				if set&(1<<i) != 0 {
					c.Dead = append(c.Dead, cluster.NodeID(i))
				} else {
					left = append(left, cluster.NodeID(i))
				}
			}
			cases++
			r := recovered(t, plan, c)
			sound(t, plan, c, r)
			if want := fewestOfSizes(t, plan, c, left); sentBytes(r) != want {
				t.Fatalf("%v, dead %v: %v, %d bytes, by trying all %d", sizes, c.Dead, sizesOf(r.Plan), sentBytes(r), want)
			}
			untouched(t, plan, r)
		}
	})
	return cases
}

// fewestOfSizes returns the fewest bytes of all sizes that are as many pipelines as the published
// steps make, or more, on as many nodes, and take no longer.
func fewestOfSizes(t *testing.T, plan *pipeline.Plan, c Change, left []cluster.NodeID) int64 {
	t.Helper()
	rule := publishedSizes(t, plan, c)
	time, least := slowest(plan, rule), int64(math.MaxInt64)
	partitions(plan.Smallest(), sum(rule), plan.Largest(), nil, func(sizes []int) {
		if len(sizes) >= len(rule) && slowest(plan, sizes) <= time {
			least = min(least, fewestBytes(plan, left, sizes))
		}
	})
	return least
}

// publishedSizes returns the sizes that the published steps make.
func publishedSizes(t testing.TB, plan *pipeline.Plan, c Change) []int {
	t.Helper()
	c, err := c.check(plan)
	if err != nil {
		t.Fatal(err)
	}
	s := newSizing(plan, c)
	s.run()
	return sizesOfTargets(s.live())
}

var slowestKnown = map[string]int64{}

// slowest returns how long an iteration of pipelines of some sizes takes without the all-reduce, of
// which these profiles have none: the least time in which the batch can be split, evenly among
// equal pipelines if that is possible at all. It tries times, and all splits for each.
func slowest(plan *pipeline.Plan, sizes []int) int64 {
	name := fmt.Sprintf("%p %d %v", plan.Profile, plan.Spec.Microbatches, sizes)
	if known, ok := slowestKnown[name]; ok {
		return known
	}
	counts, caps := map[int]int{}, map[int]func(int64) int{}
	for _, size := range sizes {
		counts[size]++
		caps[size] = microbatchesWithin(plan.Template(size).Stages)
	}
	evenly := func(time int64) bool {
		sums := map[int]bool{0: true}
		for size, n := range counts {
			next, most := map[int]bool{}, caps[size](time)
			for done := range sums {
				for each := 1; each <= most && done+each*n <= plan.Spec.Microbatches; each++ {
					next[done+each*n] = true
				}
			}
			sums = next
		}
		return sums[plan.Spec.Microbatches]
	}
	unevenly := func(time int64) bool {
		done := 0
		for size, n := range counts {
			most := caps[size](time)
			if most < 1 {
				return false
			}
			done += n * most
		}
		return done >= plan.Spec.Microbatches
	}
	enough := unevenly
	if evenly(1 << 40) {
		enough = evenly
	}
	low, high := int64(0), int64(1)<<40
	for low < high {
		if middle := (low + high) / 2; enough(middle) {
			high = middle
		} else {
			low = middle + 1
		}
	}
	slowestKnown[name] = low
	return low
}

// microbatchesWithin returns how many microbatches stages do in a time, by the paper's formula.
func microbatchesWithin(stages []pipeline.Stage) func(time int64) int {
	var all, behind int64
	k := 0
	for i, s := range stages {
		if all += s.Time; s.Time >= stages[k].Time {
			k = i
		}
	}
	for _, s := range stages[k:] {
		behind += s.Time
	}
	return func(time int64) (n int) {
		for ; n < 1<<12; n++ {
			if took := all + behind + int64(n+1-len(stages)+k-1)*stages[k].Time; took > time {
				break
			}
		}
		return n
	}
}

// partitions calls each with all ways to divide nodes into sizes between from and most.
func partitions(from, nodes, most int, sizes []int, each func([]int)) {
	if nodes == 0 {
		each(sizes)
		return
	}
	for size := from; size <= min(nodes, most); size++ {
		partitions(size, nodes-size, most, append(slices.Clone(sizes), size), each)
	}
}

// TestFewestBytesOfLarge compares large recoveries, with joined and leaving nodes, with an
// assignment of all nodes to all places that knows no classes: an auction, whose result is exact
// because its step is less than 1 divided by the number of places.
func TestFewestBytesOfLarge(t *testing.T) {
	r := rand.New(rand.NewSource(4))
	p := model(t, 48)
	for range 12 {
		var sizes []int
		for range 4 + r.Intn(4) {
			sizes = append(sizes, 6+r.Intn(8))
		}
		plan := planOf(t, p, 1, 6, 40, sizes...)
		nodes := sum(sizes)
		perm := r.Perm(nodes)
		c := Change{Dead: ids(perm[:1+r.Intn(nodes/3)]...), Leaving: ids(perm[nodes-1]), Joined: ids(1000, 1001)[:r.Intn(3)]}
		result := recovered(t, plan, c)
		sound(t, plan, c, result)
		had := layersOf(plan)
		var costs [][]int64
		for need := range places(result.Plan) {
			var row []int64
			for _, node := range result.Plan.Nodes() {
				var bytes int64
				for _, layer := range need {
					if !had[key{node, layer}] {
						bytes += p.Layers[layer].StateBytes
					}
				}
				row = append(row, bytes)
			}
			costs = append(costs, row)
		}
		if got, want := sentBytes(result), auction(costs); got != want {
			t.Fatalf("%v, %+v: %d bytes, the auction has %d", sizes, c, got, want)
		}
	}
}

// places yields the layers of each place of a plan's pipelines.
func places(plan *pipeline.Plan) func(func([]int) bool) {
	return func(yield func([]int) bool) {
		for _, each := range plan.Pipelines {
			layers := make([][]int, each.Template)
			for _, s := range plan.Template(each.Template).Stages {
				for layer := s.From; layer < s.To; layer++ {
					layers[s.Node] = append(layers[s.Node], layer)
				}
			}
			for _, place := range layers {
				if !yield(place) {
					return
				}
			}
		}
	}
}

// auction returns the least sum of an assignment of each row to a column of its own (Bertsekas).
// Columns without a row must keep the price 0, so empty rows that cost nothing take them.
func auction(costs [][]int64) (sum int64) {
	columns := len(costs[0])
	for len(costs) < columns {
		costs = append(costs, make([]int64, columns))
	}
	scale := int64(columns + 1) // costs are multiples of it, and the step is 1
	prices, owner := make([]int64, columns), slices.Repeat([]int{-1}, columns)
	var open []int
	for row := range costs {
		open = append(open, row)
	}
	for len(open) > 0 {
		row := open[len(open)-1]
		open = open[:len(open)-1]
		best, second, at := int64(math.MaxInt64), int64(math.MaxInt64), -1
		for column, cost := range costs[row] {
			switch price := cost*scale + prices[column]; {
			case price < best:
				best, second, at = price, best, column
			case price < second:
				second = price
			}
		}
		if second == math.MaxInt64 {
			second = best
		}
		prices[at] += second - best + 1
		if owner[at] >= 0 {
			open = append(open, owner[at])
		}
		owner[at] = row
	}
	for column, row := range owner {
		sum += costs[row][column]
	}
	return sum
}
