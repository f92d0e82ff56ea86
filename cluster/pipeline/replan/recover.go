package replan

import (
	"fmt"
	"slices"

	"github.com/phos-gpu/phos/cluster"
	"github.com/phos-gpu/phos/cluster/pipeline"
	"github.com/phos-gpu/phos/cluster/pipeline/instance"
)

// Recover returns the next plan after a change.
func Recover(plan *pipeline.Plan, change Change) (*Result, error) {
	c, err := change.check(plan)
	if err != nil {
		return nil, err
	}
	left := len(plan.Nodes()) - len(c.Dead) - len(c.Leaving) + len(c.Joined)
	if left > pipeline.MaxNodes {
		return nil, &pipeline.InputError{
			Where:   "joining nodes",
			Problem: fmt.Sprintf("%d nodes with them", left),
			Want:    fmt.Sprintf("at most %d", pipeline.MaxNodes),
		}
	}
	if err := checkEnough(plan, left); err != nil {
		return nil, err
	}
	s := newSizing(plan, c)
	s.run()
	next := s.assignNodes()
	if err := instance.Split(next); err != nil {
		return nil, err
	}
	r := &Result{Plan: next, Steps: s.steps()}
	r.planTransfers(plan, &c)
	return r, nil
}

// checkEnough returns an error if there are too few nodes for as many copies as the faults require.
func checkEnough(plan *pipeline.Plan, left int) error {
	smallest, faults := plan.Smallest(), plan.Spec.Faults
	needed := (faults + 1) * smallest
	if left >= needed {
		return nil
	}
	e := &pipeline.InfeasibleError{
		Problem: fmt.Sprintf(
			"%s left, and %s of at least %s take %d",
			leftText(left),
			pipeline.Count(faults+1, "pipeline"),
			pipeline.Count(smallest, "node"),
			needed,
		),
	}
	if feasible := left/smallest - 1; feasible >= 0 {
		e.Instead = fmt.Sprintf("with %s the most is --faults %d", pipeline.Count(left, "node"), feasible)
	} else {
		e.Instead = fmt.Sprintf("no pipeline is possible: save the layers' state and wait for %s", pipeline.Count(smallest-left, "more node"))
	}
	return e
}

// leftText says how many nodes are left.
func leftText(nodes int) string {
	if nodes == 1 {
		return "1 node is"
	}
	return fmt.Sprintf("%d nodes are", nodes)
}

// assignNodes assigns nodes to the pipelines. The plan has no batch yet.
func (s *sizing) assignNodes() *pipeline.Plan {
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

// groups returns the groups in which nodes must be assigned.
func (s *sizing) groups() (groups []int) {
	for _, t := range s.targets {
		if t.what != "" && !slices.Contains(groups, t.group) {
			groups = append(groups, t.group)
		}
	}
	return groups
}

// slots returns a group's places, and the nodes that it has for them.
func (s *sizing) slots(live []*target, group int) (slots []slot, nodes []cluster.NodeID) {
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
	return slots, sortedSet(append(nodes, s.given[group]...))
}

// steps returns what was done.
func (s *sizing) steps() (steps []Step) {
	for _, t := range s.targets {
		if t.what != "" && (t.before > 0 || t.size > 0) {
			steps = append(steps, Step{t.origin, t.what, t.before, t.size})
		}
	}
	return steps
}
