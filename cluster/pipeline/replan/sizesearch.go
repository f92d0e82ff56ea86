package replan

import (
	"cmp"
	"slices"

	"github.com/phos-gpu/phos/cluster/pipeline"
)

// sizeSearch is a search for sizes of pipelines with the fewest bytes: branch and bound.
type sizeSearch struct {
	plan   *pipeline.Plan
	supply *supply
	nodes  int   // that all pipelines have
	copies int   // at least so many pipelines
	time   int64 // the longest iteration
	effort int

	best  []int // sizes with the fewest bytes so far
	bytes int64

	options []option
	most    []int // by nodes: the most microbatches that any pipelines do in time
	views   []view

	// While sizes are chosen: those so far, what the views say of them, and the best bound.
	chosen  []int
	sums    [][]int64
	bound   int64
	found   []int
	order   []int // of the options
	stop    int   // the effort that is left at the end
	stopped bool  // before all were chosen
}

// option is a size that a pipeline may have.
type option struct {
	size int
	most int // microbatches in time
}

// view is a bound of the bytes of all sizes, by prices of nodes. A pipeline costs at least what its
// places cost if each had the kind of node that is cheapest for it. The sum over the pipelines,
// less the price of all nodes, bounds the bytes.
type view struct {
	values []int64 // of the options
	least  []int64 // by nodes: the least value of any pipelines that have so many
	owned  int64   // the price of all nodes
	prices []int64 // by kind
}

// maxEffort bounds the search, in numbers that are looked at: some milliseconds.
const maxEffort = 4_000_000

const unreachable = 1 << 62

// newSizeSearch returns a search for sizes that are better than given ones.
func newSizeSearch(plan *pipeline.Plan, from *supply, given []int, time int64) *sizeSearch {
	s := &sizeSearch{plan: plan, supply: from, copies: len(given), time: time, effort: maxEffort, best: given}
	for _, size := range given {
		s.nodes += size
	}
	limit := s.limit(s.fastestReduce())
	for _, size := range s.sizes() {
		if most := s.within(size, limit); most > 0 {
			s.options = append(s.options, option{size, most})
		}
	}
	s.most = make([]int, s.nodes+1)
	for nodes := 1; nodes <= s.nodes; nodes++ {
		s.most[nodes] = -1
		for _, o := range s.options {
			if o.size <= nodes && s.most[nodes-o.size] >= 0 {
				s.most[nodes] = max(s.most[nodes], s.most[nodes-o.size]+o.most)
			}
		}
	}
	return s
}

// sizes returns the sizes that are tried: all, or if these are too many those that are nearest to
// the present ones.
func (s *sizeSearch) sizes() (tried []int) {
	present := append(slices.Clone(s.best), sizesOfPlan(s.plan)...)
	distance := func(size int) (least int) {
		least = size
		for _, each := range present {
			least = min(least, max(each-size, size-each))
		}
		return least
	}
	for size := s.plan.Smallest(); size <= min(s.plan.Largest(), s.nodes); size++ {
		tried = append(tried, size)
	}
	slices.SortStableFunc(tried, func(a, b int) int { return cmp.Compare(distance(a), distance(b)) })
	cells := 0
	for i, size := range tried {
		if cells += size * len(s.supply.nodes); cells > maxEffort/64 && distance(size) > 0 {
			return tried[:i]
		}
	}
	return tried
}

// within returns how many microbatches a pipeline does within a time.
func (s *sizeSearch) within(size int, time int64) int {
	return min(s.plan.Template(size).Line().MaxWithin(time), s.plan.Spec.Microbatches)
}

// fastestReduce returns a possible number of pipelines with the shortest all-reduce.
func (s *sizeSearch) fastestReduce() (pipelines int) {
	pipelines = s.copies
	for n := pipelines + 1; n <= s.nodes/s.plan.Smallest(); n++ {
		if s.plan.Profile.AllReduce(n) < s.plan.Profile.AllReduce(pipelines) {
			pipelines = n
		}
	}
	return pipelines
}

// limit returns how long the slowest of some pipelines may take.
func (s *sizeSearch) limit(pipelines int) int64 { return s.time - s.plan.Profile.AllReduce(pipelines) }

// assign returns the fewest bytes for some sizes, and the prices of the nodes.
func (s *sizeSearch) assign(sizes []int) (bytes int64, prices []int64) {
	bytes, prices, work := s.supply.assign(sizes)
	s.effort -= work
	return bytes, prices
}

// addView adds the bound by some prices.
func (s *sizeSearch) addView(prices []int64) {
	v := view{prices: prices}
	for kind, price := range prices {
		v.owned += price * int64(s.supply.nodes[kind])
	}
	for _, o := range s.options {
		v.values = append(v.values, s.supply.value(o.size, prices))
		s.effort -= o.size * len(prices)
	}
	s.boundRest(&v)
	s.views = append(s.views, v)
}

// boundRest computes what any number of nodes costs at least.
func (s *sizeSearch) boundRest(v *view) {
	v.least = make([]int64, s.nodes+1)
	for nodes := 1; nodes <= s.nodes; nodes++ {
		v.least[nodes] = unreachable
		for i, o := range s.options {
			if o.size <= nodes && v.least[nodes-o.size] < unreachable {
				v.least[nodes] = min(v.least[nodes], v.least[nodes-o.size]+v.values[i])
			}
		}
	}
	s.effort -= s.nodes * len(s.options)
}

// leastBound returns the sizes with the least bound that are in time; nil if none is below the
// fewest bytes known, or found within an effort.
func (s *sizeSearch) leastBound(effort int) []int {
	s.sums = s.sums[:0]
	for range s.nodes/s.plan.Smallest() + 1 {
		s.sums = append(s.sums, make([]int64, len(s.views)))
	}
	for k, v := range s.views {
		s.sums[0][k] = -v.owned
	}
	s.bound, s.found, s.chosen = s.bytes, nil, s.chosen[:0]
	s.stop = max(0, s.effort-effort)
	s.sortOptions()
	s.choose(0, s.nodes, 0)
	s.stopped = s.effort <= s.stop
	return s.found
}

// sortOptions orders the options: those with the least mean value for each node are tried first.
func (s *sizeSearch) sortOptions() {
	s.order = s.order[:0]
	for i := range s.options {
		s.order = append(s.order, i)
	}
	mean := func(i int) (value float64) {
		for k := range s.views {
			value += float64(s.views[k].values[i])
		}
		return value / float64(s.options[i].size)
	}
	slices.SortStableFunc(s.order, func(a, b int) int { return cmp.Compare(mean(a), mean(b)) })
}

// choose chooses the sizes of further pipelines, from the options from one on, for so many nodes.
// The ones that were chosen do so many microbatches in time.
func (s *sizeSearch) choose(from, nodes, done int) {
	if nodes == 0 {
		s.take()
		return
	}
	for i := from; i < len(s.order) && s.effort > s.stop; i++ {
		o := &s.options[s.order[i]]
		if left := nodes - o.size; left >= 0 && s.promises(s.order[i], left, done+o.most) {
			s.chosen = append(s.chosen, o.size)
			s.choose(i, left, done+o.most)
			s.chosen = s.chosen[:len(s.chosen)-1]
		}
	}
}

// promises reports whether there may be sizes below the bound with one more pipeline of a size, and
// sums its values up.
func (s *sizeSearch) promises(at, left, done int) bool {
	s.effort -= len(s.views)
	depth := len(s.chosen)
	if s.most[left] < 0 || done+s.most[left] < s.plan.Spec.Microbatches ||
		depth+1+left/s.plan.Smallest() < s.copies {
		return false
	}
	for k := range s.views {
		v := &s.views[k]
		s.sums[depth+1][k] = s.sums[depth][k] + v.values[at]
		if s.sums[depth+1][k]+v.least[left] >= s.bound {
			return false
		}
	}
	return true
}

// take keeps the chosen sizes, which have the least bound so far, if they are in time.
func (s *sizeSearch) take() {
	if len(s.chosen) < s.copies || len(s.chosen) > s.plan.Spec.Microbatches || !s.inTime() {
		return
	}
	s.found, s.bound = slices.Clone(s.chosen), slices.Max(s.sums[len(s.chosen)])
}
