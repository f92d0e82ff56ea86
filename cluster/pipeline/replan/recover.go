package replan

import (
	"fmt"

	"github.com/phos-gpu/phos/cluster/pipeline"
	"github.com/phos-gpu/phos/cluster/pipeline/instance"
)

// Recover returns the next plan after a change.
func Recover(plan *pipeline.Plan, change Change) (*Result, error) {
	plan, c, err := begin(plan, change)
	if err != nil {
		return nil, err
	}
	sizes := newSizing(plan, c)
	sizes.run()
	nodes := survivors(plan, &c)
	targets, err := fewest(plan, sizes.live(), nodes)
	if err != nil {
		return nil, err
	}
	return finish(plan, &c, nodes, targets)
}

// begin checks a change. It returns the plan, on the machines that nodes share now, and the change
// with sorted nodes.
func begin(plan *pipeline.Plan, change Change) (*pipeline.Plan, Change, error) {
	c, err := change.check(plan)
	if err != nil {
		return nil, c, err
	}
	if c.Machines != nil {
		moved := *plan
		moved.Machines, plan = c.Machines, &moved
	}
	left := len(plan.Nodes()) - len(c.Dead) - len(c.Leaving) + len(c.Joined)
	if left > pipeline.MaxNodes {
		return nil, c, &pipeline.InputError{
			Where:   "joining nodes",
			Problem: fmt.Sprintf("%d nodes with them", left),
			Want:    fmt.Sprintf("at most %d", pipeline.MaxNodes),
		}
	}
	return plan, c, checkEnough(plan, left)
}

// finish assigns nodes and microbatches to pipelines, and finds what must be copied.
func finish(plan *pipeline.Plan, c *Change, nodes []survivor, targets []*target) (*Result, error) {
	next, origins := assignNodes(plan, nodes, targets)
	if err := instance.Split(next); err != nil {
		return nil, err
	}
	r := &Result{Plan: next, Steps: steps(plan, c, next, origins)}
	r.planTransfers(plan, c)
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
