package replan

import (
	"slices"

	"github.com/phos-gpu/phos/cluster"
	"github.com/phos-gpu/phos/cluster/pipeline"
)

// target is a pipeline of the next plan. Pipelines that exchange nodes are in one group, within
// which nodes are assigned again.
type target struct {
	origin int // its number in the previous plan; -1 for a new one
	before int // nodes that it had
	left   []cluster.NodeID
	size   int
	group  int
	what   What // the last step that was taken for it; "" if none
}

// sizing decides how many nodes each pipeline has.
type sizing struct {
	plan    *pipeline.Plan
	targets []*target
	pool    []cluster.NodeID         // without layers and not in a pipeline yet
	given   map[int][]cluster.NodeID // from the pool, by group
}

// newSizing returns the pipelines and the pool after a change, before any step.
func newSizing(plan *pipeline.Plan, c Change) *sizing {
	s := &sizing{plan: plan, given: map[int][]cluster.NodeID{}}
	for i, each := range plan.Pipelines {
		t := &target{origin: i, before: len(each.Nodes), group: i}
		for _, node := range each.Nodes {
			if !c.gone(node) {
				t.left = append(t.left, node)
			}
		}
		t.size = len(t.left)
		switch t.size {
		case t.before:
		case 0:
			t.what = Gone
		default:
			t.what = Reinstantiated
		}
		s.targets = append(s.targets, t)
	}
	for _, node := range plan.Spare {
		if !c.gone(node) {
			s.pool = append(s.pool, node)
		}
	}
	s.pool = sortedSet(append(s.pool, c.Joined...))
	return s
}

// run takes the steps in order.
func (s *sizing) run() {
	s.fill()
	s.borrow()
	s.merge()
	s.addPipelines()
	s.extend()
	s.addForFaults()
}

// live returns the pipelines with nodes.
func (s *sizing) live() (found []*target) {
	for _, t := range s.targets {
		if t.size > 0 {
			found = append(found, t)
		}
	}
	return found
}

// addFromPool adds a node of the pool to a pipeline.
func (s *sizing) addFromPool(t *target) {
	s.given[t.group] = append(s.given[t.group], s.pool[0])
	s.pool = s.pool[1:]
	t.size++
}

// joinGroups merges two groups.
func (s *sizing) joinGroups(a, b *target) {
	from, to := b.group, a.group
	if from == to {
		return
	}
	s.given[to] = append(s.given[to], s.given[from]...)
	delete(s.given, from)
	for _, t := range s.targets {
		if t.group == from {
			t.group = to
		}
	}
}

// fill replaces lost nodes from the pool: first of pipelines that are too small, those that need
// fewest first, then of all others.
func (s *sizing) fill() {
	damaged := slices.DeleteFunc(s.live(), func(t *target) bool { return t.size == t.before })
	for _, short := range []int{s.plan.Smallest(), s.plan.Largest()} {
		slices.SortStableFunc(damaged, func(a, b *target) int { return (short - a.size) - (short - b.size) })
		for _, t := range damaged {
			for len(s.pool) > 0 && t.size < min(short, t.before) {
				s.addFromPool(t)
				t.what = Filled
			}
		}
	}
}

// borrow moves nodes from the largest pipelines to those that are too small.
func (s *sizing) borrow() {
	for _, t := range s.live() {
		for t.size < s.plan.Smallest() {
			donor := s.donor()
			if donor == nil {
				return
			}
			s.moveNode(donor, t)
			t.what = Borrowed
		}
	}
}

// donor returns the largest pipeline that can spare a node, the last of equal ones.
func (s *sizing) donor() (donor *target) {
	for _, t := range s.live() {
		if t.size > s.plan.Smallest() && (donor == nil || t.size >= donor.size) {
			donor = t
		}
	}
	return donor
}

// moveNode gives a node of one pipeline to another.
func (s *sizing) moveNode(from, to *target) {
	from.size--
	to.size++
	from.what = Lent
	s.joinGroups(from, to)
}

// merge makes as many pipelines as possible of those that are still too small; the remaining nodes
// go to other pipelines or become spare. Called only if borrow found no donor.
func (s *sizing) merge() {
	small := slices.DeleteFunc(s.live(), func(t *target) bool { return t.size >= s.plan.Smallest() })
	if len(small) == 0 {
		return
	}
	slices.SortStableFunc(small, func(a, b *target) int { return b.size - a.size })
	nodes := 0
	for _, t := range small {
		nodes += t.size
		t.what = Merged
		s.joinGroups(small[0], t)
	}
	for _, t := range small {
		if t.size = 0; nodes >= s.plan.Smallest() {
			t.size = s.plan.Smallest()
			nodes -= t.size
		}
	}
	s.distribute(small[0], nodes)
}

// distribute gives a group's remaining nodes to pipelines that can grow, smallest first. Nodes that
// no pipeline can take stay in the group and become spare.
func (s *sizing) distribute(of *target, nodes int) {
	for ; nodes > 0; nodes-- {
		t := s.smallest()
		if t == nil {
			return
		}
		if t.size++; t.what == "" {
			t.what = Merged
		}
		s.joinGroups(of, t)
	}
}

// smallest returns the smallest pipeline that can have one more node, the first of equal ones.
func (s *sizing) smallest() (smallest *target) {
	for _, t := range s.live() {
		if t.size < s.plan.Largest() && (smallest == nil || t.size < smallest.size) {
			smallest = t
		}
	}
	return smallest
}

// addPipelines makes pipelines of nodes in the pool, as long as there is a microbatch for each.
func (s *sizing) addPipelines() {
	for len(s.pool) >= s.plan.Smallest() && len(s.live()) < s.plan.Spec.Microbatches {
		t := s.newTarget(Made)
		for size := min(len(s.pool), s.plan.Largest()); t.size < size; {
			s.addFromPool(t)
		}
	}
}

// newTarget adds an empty pipeline.
func (s *sizing) newTarget(what What) *target {
	t := &target{origin: -1, group: len(s.targets), what: what}
	s.targets = append(s.targets, t)
	return t
}

// extend gives single nodes of the pool to the smallest pipelines.
func (s *sizing) extend() {
	for len(s.pool) > 0 {
		t := s.smallest()
		if t == nil {
			return
		}
		s.addFromPool(t)
		t.what = Filled
	}
}

// addForFaults makes more pipelines until there are as many as the faults require, of nodes that
// others can spare. Such nodes exist as long as there are enough in all.
func (s *sizing) addForFaults() {
	for len(s.live()) <= s.plan.Spec.Faults {
		t := s.newTarget(Split)
		for t.size < s.plan.Smallest() {
			switch donor := s.donor(); {
			case len(s.pool) > 0:
				s.addFromPool(t)
			case donor != nil:
				s.moveNode(donor, t)
			case s.joinIdleGroup(t):
				t.size++
			default:
				return
			}
		}
	}
}

// joinIdleGroup merges a group that has more nodes than its pipelines use.
func (s *sizing) joinIdleGroup(to *target) bool {
	nodes := map[int]int{}
	for _, t := range s.targets {
		nodes[t.group] += len(t.left) - t.size
	}
	for _, t := range s.targets {
		if nodes[t.group]+len(s.given[t.group]) > 0 && t != to {
			s.joinGroups(to, t)
			return true
		}
	}
	return false
}
