package replan

import (
	"cmp"
	"math"
	"slices"

	"github.com/phos-gpu/phos/cluster/pipeline"
	"github.com/phos-gpu/phos/scheduler/cluster"
)

// matchOrigins returns which pipeline of the previous plan each one continues: the one that most of
// its nodes come from. Each is continued once; -1 stands for a new pipeline.
func matchOrigins(members [][]survivor, before int) (origins []int) {
	type overlap struct{ nodes, origin, pipeline int }
	var overlaps []overlap
	for i, nodes := range members {
		count := make(map[int]int)
		for _, each := range nodes {
			count[each.origin]++
		}
		for origin, n := range count {
			if origin >= 0 {
				overlaps = append(overlaps, overlap{n, origin, i})
			}
		}
		origins = append(origins, -1)
	}
	slices.SortFunc(overlaps, func(a, b overlap) int {
		return cmp.Or(cmp.Compare(b.nodes, a.nodes), cmp.Compare(a.origin, b.origin), cmp.Compare(a.pipeline, b.pipeline))
	})
	continued := make([]bool, before)
	for _, each := range overlaps {
		if origins[each.pipeline] < 0 && !continued[each.origin] {
			origins[each.pipeline], continued[each.origin] = each.origin, true
		}
	}
	return origins
}

// compareOrigins orders pipelines by origin, new ones last.
func compareOrigins(a, b int) int { return cmp.Compare(rankOf(a), rankOf(b)) }

// rankOf returns an origin's place in the order.
func rankOf(origin int) int {
	if origin < 0 {
		return math.MaxInt
	}
	return origin
}

// byOrigin returns the indices of pipelines in the order of their origins.
func byOrigin(origins []int) (order []int) {
	for i := range origins {
		order = append(order, i)
	}
	slices.SortStableFunc(order, func(a, b int) int { return compareOrigins(origins[a], origins[b]) })
	return order
}

// steps returns what was done for each pipeline, by where its nodes come from and go to. origins
// are those of the next plan's pipelines.
func steps(plan *pipeline.Plan, c *Change, next *pipeline.Plan, origins []int) (all []Step) {
	d := &difference{change: c, before: homes(plan), after: homes(next), origins: origins}
	for i, each := range plan.Pipelines {
		successor := slices.Index(origins, i)
		if successor < 0 {
			all = append(all, Step{i, d.whatOfEnded(each), len(each.Nodes), 0})
			continue
		}
		after := next.Pipelines[successor]
		if !slices.Equal(each.Nodes, after.Nodes) {
			all = append(all, Step{i, d.whatOfChanged(i, each, after), len(each.Nodes), len(after.Nodes)})
		}
	}
	for k, origin := range origins {
		if origin < 0 {
			after := next.Pipelines[k]
			all = append(all, Step{-1, d.whatOfNew(after), 0, len(after.Nodes)})
		}
	}
	return all
}

// difference is where nodes were and where they are: numbers of pipelines of the two plans.
type difference struct {
	change        *Change
	before, after map[cluster.NodeID]int
	origins       []int
}

// homes returns the pipeline of each node that is in one.
func homes(plan *pipeline.Plan) map[cluster.NodeID]int {
	in := map[cluster.NodeID]int{}
	for i, each := range plan.Pipelines {
		for _, node := range each.Nodes {
			in[node] = i
		}
	}
	return in
}

// whatOfEnded returns what was done to a pipeline that no longer exists.
func (d *difference) whatOfEnded(ended pipeline.Pipeline) What {
	if slices.ContainsFunc(ended.Nodes, func(node cluster.NodeID) bool { return !d.change.gone(node) }) {
		return Merged
	}
	return Gone
}

// whatOfNew returns how a new pipeline was made.
func (d *difference) whatOfNew(after pipeline.Pipeline) What {
	for _, node := range after.Nodes {
		if _, had := d.before[node]; had {
			return Split
		}
	}
	return Made
}

// whatOfChanged returns what was done for a pipeline that exists in both plans.
func (d *difference) whatOfChanged(number int, before, after pipeline.Pipeline) (what What) {
	what = Reinstantiated
	if slices.ContainsFunc(before.Nodes, func(node cluster.NodeID) bool { return d.lent(node, number) }) {
		what = Lent
	}
	for _, node := range after.Nodes {
		home, had := d.before[node]
		switch {
		case had && home != number && !slices.Contains(d.origins, home):
			return Merged
		case had && home != number:
			what = Borrowed
		case !had && what != Borrowed:
			what = Filled
		}
	}
	return what
}

// lent reports whether a node of a pipeline is now in another one.
func (d *difference) lent(node cluster.NodeID, number int) bool {
	after, ok := d.after[node]
	return ok && d.origins[after] != number
}
