package replan

import (
	"errors"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/phos-gpu/phos/cluster/pipeline"
	"github.com/phos-gpu/phos/scheduler/cluster"
	"github.com/phos-gpu/phos/tests/harness/rounds"
)

// lacking counts by the definition: over all layers, how many of the wanted machines have no copy.
// on is the machine of each node.
func lacking(plan *pipeline.Plan, on map[cluster.NodeID]int) (missing int) {
	all, have := map[int]bool{}, map[key]bool{}
	for _, node := range plan.Nodes() {
		all[on[node]] = true
	}
	for each := range layersOf(plan) {
		have[key{cluster.NodeID(on[each.node]), each.layer}] = true
	}
	want := plan.Profile.Len() * min(plan.Spec.Faults+1, len(all))
	for layer := range plan.Profile.Len() {
		machines := 0
		for machine := range all {
			if have[key{cluster.NodeID(machine), layer}] {
				machines++
			}
		}
		want -= min(machines, plan.Spec.Faults+1, len(all))
	}
	return want
}

// leastLacking tries all ways to put a plan's nodes on its places.
func leastLacking(plan *pipeline.Plan, on map[cluster.NodeID]int) int {
	nodes, next := plan.Nodes(), *plan
	var best int
	try := func(order []cluster.NodeID) {
		next.Pipelines, next.Spare = nil, nil
		for _, each := range plan.Pipelines {
			next.Pipelines = append(next.Pipelines, pipeline.Pipeline{Template: each.Template, Nodes: order[:each.Template]})
			order = order[each.Template:]
		}
		next.Spare = order
		best = min(best, lacking(&next, on))
	}
	best = lacking(plan, on)
	var permute func(order []cluster.NodeID, from int)
	permute = func(order []cluster.NodeID, from int) {
		if from == len(order) {
			try(order)
			return
		}
		tried := map[int]bool{}
		for i := from; i < len(order); i++ {
			if tried[on[order[i]]] {
				continue // another node of this machine was here
			}
			tried[on[order[i]]] = true
			order[from], order[i] = order[i], order[from]
			permute(order, from+1)
			order[from], order[i] = order[i], order[from]
		}
	}
	permute(nodes, 0)
	return best
}

// TestMachines: after random changes of nodes that share machines, layers are on as many of them as
// some assignment of the nodes to the same pipelines gives them.
func TestMachines(t *testing.T) {
	p := model(t, 7)
	r := rand.New(rand.NewPCG(3, 4))
	cases, worse, harmed := 0, 0, 0
	for cases < rounds.Of(150, 2000) {
		sizes := [][]int{{2, 2, 2}, {2, 3, 3}, {2, 2, 4}, {3, 3}, {2, 2, 2, 2}}[r.IntN(5)]
		plan := planOf(t, p, 1+r.IntN(len(sizes)-1), 2, 4, sizes...)
		on := map[cluster.NodeID]int{}
		plan.Machines = make(pipeline.Machines, 2+r.IntN(3))
		for _, node := range append(plan.Nodes(), 90) {
			on[node] = r.IntN(len(plan.Machines))
			plan.Machines[on[node]] = append(plan.Machines[on[node]], node)
		}
		c := Change{Machines: plan.Machines, Joined: ids(90)[:r.IntN(2)]}
		for _, node := range r.Perm(sum(sizes))[:r.IntN(3)] {
			c.Dead = append(c.Dead, cluster.NodeID(node))
		}
		plan.Machines = plan.Machines.Among(plan.Nodes())
		after, err := Recover(plan, c)
		var infeasible *pipeline.InfeasibleError
		if errors.As(err, &infeasible) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		cases++
		sound(t, plan, c, after)
		missing := lacking(after.Plan, on)
		if (missing > 0) != (len(after.Plan.OnTooFew()) > 0) {
			t.Errorf("%v lacks %d, and on too few machines are the layers %v", after.Plan.Pipelines, missing, after.Plan.OnTooFew())
		}
		if missing > leastLacking(after.Plan, on) {
			worse++
		}
		plan.Machines, c.Machines = nil, nil
		if lacking(recovered(t, plan, c).Plan, on) > missing {
			harmed++
		}
		if text, err := after.Plan.Encode(nil); err != nil {
			t.Error(err)
		} else if read, err := pipeline.DecodePlan(text); err != nil || !slices.EqualFunc(read.Machines, after.Plan.Machines, slices.Equal) {
			t.Errorf("the plan is read as %+v: %v", read, err)
		}
	}
	if worse > cases/100 || harmed == 0 {
		t.Errorf("of %d, %d lack more than they need; without machines %d would lack more", cases, worse, harmed)
	}
}
