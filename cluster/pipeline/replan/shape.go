package replan

import (
	"slices"

	"github.com/phos-gpu/phos/cluster/pipeline"
)

// target is a pipeline of the next plan, while sizes are decided.
type target struct {
	origin int // its number in the previous plan; -1 for a new one
	before int // nodes that it had
	size   int
}

// sizing decides how many nodes each pipeline has. Which nodes these are is decided later, for all
// pipelines at once.
type sizing struct {
	plan    *pipeline.Plan
	targets []*target
	spare   int // nodes that are in no pipeline
}

// newSizing returns the sizes after a change, before any step.
func newSizing(plan *pipeline.Plan, c Change) *sizing {
	s := &sizing{plan: plan, spare: len(c.Joined)}
	for i, each := range plan.Pipelines {
		t := &target{origin: i, before: len(each.Nodes)}
		for _, node := range each.Nodes {
			if !c.gone(node) {
				t.size++
			}
		}
		s.targets = append(s.targets, t)
	}
	for _, node := range plan.Spare {
		if !c.gone(node) {
			s.spare++
		}
	}
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

// grow adds a spare node to a pipeline.
func (s *sizing) grow(t *target) {
	s.spare--
	t.size++
}

// fill replaces lost nodes by spare ones: first of pipelines that are too small, those that need
// fewest first, then of all others.
func (s *sizing) fill() {
	damaged := slices.DeleteFunc(s.live(), func(t *target) bool { return t.size == t.before })
	for _, short := range []int{s.plan.Smallest(), s.plan.Largest()} {
		slices.SortStableFunc(damaged, func(a, b *target) int { return (short - a.size) - (short - b.size) })
		for _, t := range damaged {
			for s.spare > 0 && t.size < min(short, t.before) {
				s.grow(t)
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
			donor.size--
			t.size++
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

// merge makes as many pipelines as possible of those that are still too small; the remaining nodes
// go to the smallest other pipelines that can grow. Called only if borrow found no donor.
func (s *sizing) merge() {
	small := slices.DeleteFunc(s.live(), func(t *target) bool { return t.size >= s.plan.Smallest() })
	slices.SortStableFunc(small, func(a, b *target) int { return b.size - a.size })
	for _, t := range small {
		s.spare += t.size
		t.size = 0
	}
	for _, t := range small {
		for s.spare >= s.plan.Smallest()-t.size && t.size < s.plan.Smallest() {
			s.grow(t)
		}
	}
	if len(small) > 0 {
		s.extend()
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

// addPipelines makes pipelines of spare nodes, as long as there is a microbatch for each.
func (s *sizing) addPipelines() {
	for s.spare >= s.plan.Smallest() && len(s.live()) < s.plan.Spec.Microbatches {
		t := s.newTarget()
		for size := min(s.spare, s.plan.Largest()); t.size < size; {
			s.grow(t)
		}
	}
}

// newTarget adds an empty pipeline.
func (s *sizing) newTarget() *target {
	t := &target{origin: -1}
	s.targets = append(s.targets, t)
	return t
}

// extend gives single spare nodes to the smallest pipelines. Nodes that no pipeline can take stay
// spare.
func (s *sizing) extend() {
	for s.spare > 0 {
		t := s.smallest()
		if t == nil {
			return
		}
		s.grow(t)
	}
}

// addForFaults makes more pipelines until there are as many as the faults require, of nodes that
// others can spare. Such nodes exist as long as there are enough in all.
func (s *sizing) addForFaults() {
	for len(s.live()) <= s.plan.Spec.Faults {
		t := s.newTarget()
		for t.size < s.plan.Smallest() {
			switch donor := s.donor(); {
			case s.spare > 0:
				s.grow(t)
			case donor != nil:
				donor.size--
				t.size++
			default:
				return
			}
		}
	}
}
