package recover

import (
	"fmt"
	"slices"

	"github.com/phos-gpu/phos/cluster"
	"github.com/phos-gpu/phos/cluster/pipeline"
	"github.com/phos-gpu/phos/cluster/pipeline/instance"
)

// Recover makes the next plan.
func Recover(plan *pipeline.Plan, change Change) (*Result, error) {
	c, err := change.check(plan)
	if err != nil {
		return nil, err
	}
	left := len(plan.Nodes()) - len(c.Dead) - len(c.Leaving) + len(c.Joined)
	if err := enough(plan, left); err != nil {
		return nil, err
	}
	s := newShape(plan, c)
	s.settle()
	next := s.arrange()
	if err := split(next); err != nil {
		if s, next, err = replanned(plan, c, left); err != nil {
			return nil, err
		}
	}
	r := &Result{Plan: next, Steps: s.steps()}
	r.copies(plan, &c)
	return r, nil
}

// enough refuses to go on with fewer copies than the faults call for.
func enough(plan *pipeline.Plan, left int) error {
	smallest, faults := plan.Smallest(), plan.Spec.Faults
	needed := (faults + 1) * smallest
	if left >= needed {
		return nil
	}
	e := &pipeline.InfeasibleError{Problem: fmt.Sprintf("%d nodes are left, and %d pipelines of at least %d nodes take %d", left, faults+1, smallest, needed)}
	if feasible := left/smallest - 1; feasible >= 0 {
		e.Instead = fmt.Sprintf("with %d nodes the most is --faults %d", left, feasible)
	} else {
		e.Instead = fmt.Sprintf("not one pipeline can be made: save the state of the layers and wait for %d nodes", smallest-left)
	}
	return e
}

// arrange puts the nodes into the shape. The plan has no batch yet.
func (s *shape) arrange() *pipeline.Plan {
	next := &pipeline.Plan{Profile: s.plan.Profile, Spec: s.plan.Spec, Templates: s.plan.Templates}
	live := s.live()
	nodes := make([][]cluster.NodeID, len(live))
	for i, t := range live {
		nodes[i] = make([]cluster.NodeID, t.size)
		if t.what == "" {
			nodes[i] = slices.Clone(t.left)
		}
	}
	next.Spare = slices.Clone(s.pool)
	holds := holdings(s.plan)
	for _, group := range s.groups() {
		slots, members := s.slots(live, group)
		on, over := assign(s.plan.Profile, slots, members, holds)
		for i, each := range slots {
			nodes[each.target][each.place] = on[i]
		}
		next.Spare = append(next.Spare, over...)
	}
	for i, t := range live {
		next.Pipelines = append(next.Pipelines, pipeline.Pipeline{Template: t.size, Nodes: nodes[i]})
	}
	slices.Sort(next.Spare)
	return next
}

// groups are those in which something is to be assigned.
func (s *shape) groups() (groups []int) {
	for _, t := range s.targets {
		if t.what != "" && !slices.Contains(groups, t.group) {
			groups = append(groups, t.group)
		}
	}
	return groups
}

// slots are a group's places to be, and the nodes that it has for them.
func (s *shape) slots(live []*target, group int) (slots []slot, nodes []cluster.NodeID) {
	for i, t := range live {
		if t.group != group {
			continue
		}
		template := s.plan.Template(t.size)
		for place := range t.size {
			slots = append(slots, slot{i, place, template.NodeLayers(place)})
		}
	}
	for _, t := range s.targets {
		if t.group == group {
			nodes = append(nodes, t.left...)
		}
	}
	return slots, set(append(nodes, s.given[group]...))
}

// split divides the batch over the pipelines that a plan has, equal ones alike.
func split(plan *pipeline.Plan) error {
	lines, counts := map[int]pipeline.Line{}, map[int]int{}
	var sizes []int
	for _, each := range plan.Pipelines {
		if counts[each.Template]++; counts[each.Template] == 1 {
			sizes = append(sizes, each.Template)
			lines[each.Template] = plan.Template(each.Template).Line()
		}
	}
	slices.Sort(sizes)
	var shares []instance.Share
	for _, size := range sizes {
		shares = append(shares, instance.Share{Line: lines[size], Count: counts[size]})
	}
	each, _, err := instance.Distribute(shares, plan.Spec.Microbatches)
	if err != nil {
		return err
	}
	for i := range plan.Pipelines {
		at, _ := slices.BinarySearch(sizes, plan.Pipelines[i].Template)
		plan.Pipelines[i].Microbatches = each[at]
	}
	return nil
}

// replanned chooses the templates anew, for as many of the nodes as a batch can be split over. Pipelines that can stay as they are do.
func replanned(plan *pipeline.Plan, c Change, left int) (*shape, *pipeline.Plan, error) {
	for nodes := left; nodes >= (plan.Spec.Faults+1)*plan.Smallest(); nodes-- {
		used, best := instance.Combine(plan, nodes)
		if best == nil {
			continue
		}
		s := newShape(plan, c)
		s.replan(best.Counts)
		next := s.arrange()
		if err := split(next); err != nil {
			return nil, nil, fmt.Errorf("plan for %d nodes: %w", used, err)
		}
		return s, next, nil
	}
	return nil, nil, &pipeline.InfeasibleError{Problem: fmt.Sprintf("%d microbatches cannot be split over any pipelines of the %d nodes that are left",
		plan.Spec.Microbatches, left)}
}

// replan gives the targets the sizes of a combination: whole pipelines of a wanted size stay, the others share what is left.
func (s *shape) replan(counts []int) {
	counts = slices.Clone(counts)
	all := s.another(Replanned)
	for _, t := range s.targets {
		at := t.before - s.plan.Smallest()
		if t != all && t.what == "" && counts[at] > 0 {
			counts[at]--
			continue
		}
		t.size, t.what = 0, Replanned
		s.join(all, t)
	}
	s.given[all.group] = append(s.given[all.group], s.pool...)
	s.pool = nil
	for i, n := range counts {
		for ; n > 0; n-- {
			t := s.another(Replanned)
			t.size = s.plan.Smallest() + i
			s.join(all, t)
		}
	}
}

// steps tells what was done.
func (s *shape) steps() (steps []Step) {
	for _, t := range s.targets {
		if t.what != "" && (t.before > 0 || t.size > 0) {
			steps = append(steps, Step{t.origin, t.what, t.before, t.size})
		}
	}
	return steps
}
