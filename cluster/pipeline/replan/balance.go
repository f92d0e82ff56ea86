package replan

import (
	"context"
	"fmt"

	"github.com/phos-gpu/phos/cluster/pipeline"
	"github.com/phos-gpu/phos/cluster/pipeline/instance"
)

// Balance returns the next plan after a change, with the pipelines that a new plan for as many
// nodes would have (instance.Combine), whatever must be copied for them. Of all assignments of
// nodes to them it is one that sends the fewest bytes.
func Balance(plan *pipeline.Plan, change Change) (*Result, error) {
	plan, c, err := begin(plan, change)
	if err != nil {
		return nil, err
	}
	nodes := survivors(plan, &c)
	_, best := instance.Combine(context.Background(), plan, len(nodes))
	if best == nil {
		return nil, &pipeline.InfeasibleError{
			Problem: fmt.Sprintf("%s cannot form pipelines with a microbatch for each", pipeline.Count(len(nodes), "node")),
		}
	}
	var sizes []int
	for i, count := range best.Counts {
		for range count {
			sizes = append(sizes, plan.Templates[i].Nodes)
		}
	}
	return finish(plan, &c, nodes, targetsOf(plan, sizes, nodes))
}
