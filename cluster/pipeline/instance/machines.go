package instance

import (
	"context"
	"slices"

	"github.com/phos-gpu/phos/cluster/pipeline"
	"github.com/phos-gpu/phos/cluster/pipeline/spread"
	"github.com/phos-gpu/phos/scheduler/cluster"
)

// OnMachines returns a plan that was just made, with its nodes in other places: each layer is on
// one machine more than the faults, as far as that is possible.
//
// If it is not possible with the fastest pipelines, those without the largest templates are tried,
// on as many nodes.
func OnMachines(ctx context.Context, plan *pipeline.Plan, machines pipeline.Machines) (*pipeline.Plan, error) {
	nodes := plan.Nodes()
	machines = machines.Among(nodes)
	best, missing := spreadOver(plan, machines)
	for size := plan.Largest() - 1; missing > 0 && size >= plan.Smallest(); size-- {
		other, err := without(ctx, plan, size, nodes)
		if err != nil {
			return nil, err
		}
		if other == nil {
			break
		}
		if other, lacks := spreadOver(other, machines); lacks < missing {
			best, missing = other, lacks
		}
	}
	return best, nil
}

// without returns the best plan with templates up to a size; nil if it uses fewer nodes.
func without(ctx context.Context, plan *pipeline.Plan, size int, nodes []cluster.NodeID) (*pipeline.Plan, error) {
	trial := *plan
	trial.Templates = plan.Templates[:size-plan.Smallest()+1]
	used, best := Combine(ctx, &trial, len(nodes))
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if best == nil || used < len(nodes)-len(plan.Spare) {
		return nil, nil
	}
	other := Place(plan, best, nodes[:used])
	other.Spare, other.AtLeast = nodes[used:], plan.AtLeast
	if best.Split == nil {
		return other, Split(other)
	}
	return other, nil
}

// spreadOver returns a plan with its nodes in other places, and how many machines its layers lack.
func spreadOver(plan *pipeline.Plan, machines pipeline.Machines) (*pipeline.Plan, int) {
	a := &spread.Assignment{Layers: plan.Profile.Len()}
	var nodes []cluster.NodeID
	for _, each := range plan.Pipelines {
		nodes = append(nodes, each.Nodes...)
		for place := range each.Nodes {
			a.Needs = append(a.Needs, plan.Template(each.Template).NodeLayers(place))
		}
	}
	nodes = append(nodes, plan.Spare...)
	a.Machines = machines.Of(nodes)
	a.Want = machines.Want(plan.Spec.Faults, nodes)
	order, missing := a.Improve()
	next := *plan
	next.Machines, next.Pipelines = machines, slices.Clone(plan.Pipelines)
	placed := make([]cluster.NodeID, len(order))
	for i, node := range order {
		placed[i] = nodes[node]
	}
	for i, each := range next.Pipelines {
		next.Pipelines[i].Nodes, placed = placed[:each.Template:each.Template], placed[each.Template:]
	}
	next.Spare = slices.Sorted(slices.Values(placed))
	return &next, missing
}
