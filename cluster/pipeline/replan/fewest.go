package replan

import (
	"github.com/phos-gpu/phos/cluster/pipeline"
	"github.com/phos-gpu/phos/cluster/pipeline/instance"
)

// fewest returns the pipelines with which the fewest bytes are sent, of all sizes that use as many
// nodes as given ones, are at least as many pipelines, and have no longer an iteration. Of equal
// ones the given ones are kept, else the first found.
func fewest(plan *pipeline.Plan, given []*target, nodes []survivor) ([]*target, error) {
	sizes := sizesOfTargets(given)
	time, err := iterationTime(plan, sizes)
	if err != nil {
		return nil, err
	}
	s := newSizeSearch(plan, newSupply(plan, nodes), sizes, time)
	if !s.improve() {
		return given, nil
	}
	return targetsOf(plan, s.best, nodes), nil
}

// improve searches until no sizes have fewer bytes, or the effort is spent. It reports whether
// there are better ones than at first.
//
// Each assignment gives prices of nodes, and with them a bound for all sizes, which is exact for
// its own. The sizes with the least bound are assigned next, until they cannot be better than the
// best.
func (s *sizeSearch) improve() (improved bool) {
	first, prices := s.assign(s.best)
	s.bytes = first
	for s.bytes > 0 && s.effort > 0 {
		s.addView(prices)
		sizes := s.next()
		if sizes == nil {
			break
		}
		var bytes int64
		if bytes, prices = s.assign(sizes); bytes < s.bytes {
			s.best, s.bytes = sizes, bytes
		}
	}
	return s.bytes < first
}

// next returns the sizes to assign next; nil if there are none. If it takes too long to find those
// with the least bound of all, neighbours of the best lead to better ones and to better bounds,
// with which all are tried again.
func (s *sizeSearch) next() []int {
	if !s.stopped {
		if sizes := s.leastBound(maxEffort / 32); sizes != nil || !s.stopped {
			return sizes
		}
	}
	if sizes := s.neighbour(); sizes != nil {
		return sizes
	}
	return s.leastBound(s.effort)
}

// iterationTime returns how long an iteration of pipelines of some sizes takes.
func iterationTime(plan *pipeline.Plan, sizes []int) (int64, error) {
	next := &pipeline.Plan{Profile: plan.Profile, Spec: plan.Spec, Templates: plan.Templates}
	for _, size := range sizes {
		next.Pipelines = append(next.Pipelines, pipeline.Pipeline{Template: size})
	}
	err := instance.Split(next)
	return next.IterationTime(), err
}

// targetsOf returns pipelines of some sizes. Those of which all nodes are left continue if there is
// one of their size; then others do, in order.
func targetsOf(plan *pipeline.Plan, sizes []int, nodes []survivor) (all []*target) {
	left := make([]int, len(plan.Pipelines))
	for _, each := range nodes {
		if each.origin >= 0 {
			left[each.origin]++
		}
	}
	counts := countOf(sizes)
	continues := func(i, size int) {
		counts[size]--
		all = append(all, &target{i, len(plan.Pipelines[i].Nodes), size})
		left[i] = 0
	}
	for i, each := range plan.Pipelines {
		if size := len(each.Nodes); left[i] == size && size < len(counts) && counts[size] > 0 {
			continues(i, size)
		}
	}
	for i, n := range left {
		if n > 0 && n < len(counts) && counts[n] > 0 {
			continues(i, n)
		}
	}
	for size, n := range counts {
		for range n {
			all = append(all, &target{-1, 0, size})
		}
	}
	return all
}

// sizesOfTargets returns the sizes of pipelines.
func sizesOfTargets(all []*target) (sizes []int) {
	for _, each := range all {
		sizes = append(sizes, each.size)
	}
	return sizes
}

// sizesOfPlan returns the sizes of a plan's pipelines.
func sizesOfPlan(plan *pipeline.Plan) (sizes []int) {
	for _, each := range plan.Pipelines {
		sizes = append(sizes, each.Template)
	}
	return sizes
}
