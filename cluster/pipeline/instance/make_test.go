package instance

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/phos-gpu/phos/cluster/pipeline"
)

func equalLayers(t testing.TB, n int) *pipeline.Profile {
	t.Helper()
	var layers []pipeline.Layer
	for i := range n {
		layers = append(layers, pipeline.Layer{Name: fmt.Sprint("layer ", i), Forward: 1e6, Backward: 2e6, StateBytes: 100,
			Across: map[int]time.Duration{2: 1e5, 8: 3e5}})
	}
	p, err := pipeline.NewProfile(layers)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestMake goes through a file and back.
func TestMake(t *testing.T) {
	plan, err := Make(equalLayers(t, 24), pipeline.Spec{Nodes: 13, GPUsPerNode: 1, GPUMemoryBytes: 1200, Faults: 2, Microbatches: 128})
	if err != nil {
		t.Fatal(err)
	}
	if plan.Smallest() != 2 || plan.Largest() != 9 || len(plan.Pipelines) < 3 || len(plan.Nodes()) != 13 {
		t.Errorf("templates %d to %d, %+v", plan.Smallest(), plan.Largest(), plan.Pipelines)
	}
	text, err := plan.Encode(nil)
	if err != nil {
		t.Fatal(err)
	}
	again, err := pipeline.DecodePlan(text)
	if err != nil || again.Hash() != plan.Hash() || again.IterationTime() != plan.IterationTime() {
		t.Errorf("read again: %v", err)
	}
	for _, change := range [][2]string{{`"microbatches": 128`, `"microbatches": 129`}, {`"forward_ms": 1,`, `"forward_ms": 2,`}, {`"faults": 2`, `"faults": 1`}} {
		changed := strings.Replace(string(text), change[0], change[1], 1)
		var refused *pipeline.InputError
		if _, err := pipeline.DecodePlan([]byte(changed)); changed == string(text) || !errors.As(err, &refused) {
			t.Errorf("%s changed to %s: %v", change[0], change[1], err)
		}
	}
}

func TestRefusals(t *testing.T) {
	for _, each := range []struct {
		spec pipeline.Spec
		want string
	}{
		{pipeline.Spec{Nodes: 4, GPUsPerNode: 1, GPUMemoryBytes: 300, Faults: 1, Microbatches: 8}, "4 nodes are too few: to survive 1 failures takes 2 pipelines of at least 3 nodes each, 6 nodes in all; with 4 nodes the most is --faults 0"},
		{pipeline.Spec{Nodes: 6, GPUsPerNode: 1, GPUMemoryBytes: 300, Faults: 1, Microbatches: 9}, "9 microbatches cannot be split over 6 nodes with at least 2 pipelines, equal ones alike and one for each; the nearest number that can is 8"},
		{pipeline.Spec{Nodes: 6, GPUsPerNode: 1, GPUMemoryBytes: 99, Faults: 1, Microbatches: 9}, "layer 0 (layer 0) alone needs 100 bytes on each of 1 GPUs, and a GPU has 99"},
		{pipeline.Spec{Nodes: 6, GPUsPerNode: 1, Faults: -1, Microbatches: 9}, "faults: -1; wanted at least 0: how many simultaneous failures of nodes to survive"},
		{pipeline.Spec{Nodes: 6, GPUsPerNode: 16, Microbatches: 9}, "16 GPUs of a node are at least 16 stages, more than the profile's 9 layers; all-reduce times among more GPUs of a node would let stages be wider"},
		{pipeline.Spec{Nodes: 6, GPUsPerNode: 1}, "microbatches: 0; wanted 1 to 1048576, over all pipelines"},
	} {
		if _, err := Make(equalLayers(t, 9), each.spec); err == nil || err.Error() != each.want {
			t.Errorf("%+v:\n%v\nwanted\n%s", each.spec, err, each.want)
		}
	}
}

// TestSpare: three layers make pipelines of two or three nodes at most, so that one of 5 or 7 nodes has to wait for 2 of 3.
func TestSpare(t *testing.T) {
	for nodes, spare := range map[int]int{4: 0, 5: 0, 6: 0, 7: 0, 8: 0} {
		plan, err := Make(equalLayers(t, 3), pipeline.Spec{Nodes: nodes, GPUsPerNode: 1, GPUMemoryBytes: 200, Faults: 1, Microbatches: 60})
		if err != nil || len(plan.Spare) != spare || len(plan.Nodes()) != nodes {
			t.Errorf("%d nodes: %v %+v", nodes, err, plan)
		}
	}
	plan, err := Make(equalLayers(t, 3), pipeline.Spec{Nodes: 11, GPUsPerNode: 1, GPUMemoryBytes: 100, Faults: 1, Microbatches: 60})
	if err != nil || len(plan.Spare) != 2 || len(plan.Nodes()) != 11 {
		t.Errorf("11 nodes, three in each pipeline: %v %+v", err, plan)
	}
}
