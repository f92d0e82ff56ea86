package instance

import (
	"testing"

	"github.com/phos-gpu/phos/cluster/pipeline"
	"github.com/phos-gpu/phos/scheduler/cluster"
)

// inTurn returns machines that get the nodes in turn.
func inTurn(machines, nodes int) (all pipeline.Machines) {
	all = make(pipeline.Machines, machines)
	for node := range nodes {
		all[node%machines] = append(all[node%machines], cluster.NodeID(node))
	}
	return all
}

// TestOnMachines: plans are spread over machines, by other sizes of pipelines where the fastest
// ones cannot be.
func TestOnMachines(t *testing.T) {
	moved, resized := 0, 0
	for layers := 4; layers <= 9; layers++ {
		for nodes := 4; nodes <= 13; nodes++ {
			for faults := 1; faults <= 2; faults++ {
				spec := pipeline.Spec{Nodes: nodes, GPUsPerNode: 1, GPUMemoryBytes: 300, Faults: faults, Microbatches: 60}
				made, err := Make(t.Context(), equalLayers(t, layers), spec, nil)
				if err != nil {
					continue // too few nodes for the layers
				}
				plan := checkOnMachines(t, made, inTurn(faults+1, nodes))
				if len(made.OnTooFew()) > 0 && len(plan.OnTooFew()) == 0 {
					moved++
				}
				if plan.IterationTime() > made.IterationTime() {
					resized++
				}
			}
		}
	}
	if moved == 0 || resized == 0 {
		t.Errorf("%d plans are better, %d with other sizes", moved, resized)
	}
}

// checkOnMachines spreads a plan over machines, and checks that it is not worse for that.
func checkOnMachines(t *testing.T, made *pipeline.Plan, machines pipeline.Machines) *pipeline.Plan {
	t.Helper()
	first := made.Hash()
	plan, err := OnMachines(t.Context(), made, machines)
	if err != nil {
		t.Fatal(err)
	}
	if made.Hash() != first {
		t.Fatal("the plan that was made has changed")
	}
	if len(plan.Nodes()) != len(made.Nodes()) || len(plan.Spare) != len(made.Spare) || plan.IterationTime() < made.IterationTime() {
		t.Errorf("%+v became %+v", made, plan)
	}
	made.Machines = plan.Machines
	if len(plan.OnTooFew()) > len(made.OnTooFew()) {
		t.Errorf("on too few machines are %v, and before %v", plan.OnTooFew(), made.OnTooFew())
	}
	checkParts(t, plan)
	return plan
}
