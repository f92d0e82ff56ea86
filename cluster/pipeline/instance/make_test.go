package instance

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand"
	"strings"
	"testing"
	"time"

	"github.com/phos-gpu/phos/cluster/pipeline"
)

func equalLayers(t testing.TB, n int) *pipeline.Profile {
	t.Helper()
	var layers []pipeline.Layer
	for i := range n {
		layers = append(layers, pipeline.Layer{
			Name: fmt.Sprint("layer ", i), Forward: 1e6, Backward: 2e6, StateBytes: 100,
			Across: map[int]time.Duration{2: 1e5, 8: 3e5},
		})
	}
	p, err := pipeline.NewProfile(layers)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestMake encodes and decodes a plan.
func TestMake(t *testing.T) {
	plan, err := Make(
		context.Background(),
		equalLayers(t, 24),
		pipeline.Spec{Nodes: 13, GPUsPerNode: 1, GPUMemoryBytes: 1200, Faults: 2, Microbatches: 128},
		nil,
	)
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
	for _, change := range [][2]string{
		{`"microbatches": 128`, `"microbatches": 129`},
		{`"forward_ms": 1,`, `"forward_ms": 2,`},
		{`"faults": 2`, `"faults": 1`},
	} {
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
		{
			pipeline.Spec{Nodes: 4, GPUsPerNode: 1, GPUMemoryBytes: 300, Faults: 1, Microbatches: 8},
			"4 nodes are too few: to survive 1 failures takes 2 pipelines of at least 3 nodes each, 6 nodes in all; with 4 " +
				"nodes the most is --faults 0",
		},
		{
			pipeline.Spec{Nodes: 6, GPUsPerNode: 1, GPUMemoryBytes: 300, Faults: 1, Microbatches: 1},
			"1 microbatch cannot be split over 6 nodes with at least 2 pipelines, one for each; the nearest number that can is 2",
		},
		{
			pipeline.Spec{Nodes: 6, GPUsPerNode: 1, GPUMemoryBytes: 99, Faults: 1, Microbatches: 9},
			"layer 0 (layer 0) alone needs 100 B on each of 1 GPU, and a GPU has 99 B",
		},
		{
			pipeline.Spec{Nodes: 6, GPUsPerNode: 1, Faults: -1, Microbatches: 9},
			"faults: -1; wanted at least 0: how many simultaneous failures of nodes to survive",
		},
		{
			pipeline.Spec{Nodes: 6, GPUsPerNode: 16, Microbatches: 9},
			"16 GPUs of a node are at least 16 stages, more than the profile's 9 layers; all-reduce times among more GPUs " +
				"of a node would let stages be wider",
		},
		{pipeline.Spec{Nodes: 6, GPUsPerNode: 1}, "microbatches: 0; wanted 1 to 1048576, over all pipelines"},
	} {
		if _, err := Make(context.Background(), equalLayers(t, 9), each.spec, nil); err == nil || err.Error() != each.want {
			t.Errorf("%+v:\n%v\nwanted\n%s", each.spec, err, each.want)
		}
	}
}

// TestSpare: three layers allow pipelines of two or three nodes, so one of 5 or 7 nodes is spare
// with two faults.
func TestSpare(t *testing.T) {
	for nodes, spare := range map[int]int{4: 0, 5: 0, 6: 0, 7: 0, 8: 0} {
		plan, err := Make(
			context.Background(),
			equalLayers(t, 3),
			pipeline.Spec{Nodes: nodes, GPUsPerNode: 1, GPUMemoryBytes: 200, Faults: 1, Microbatches: 60},
			nil,
		)
		if err != nil || len(plan.Spare) != spare || len(plan.Nodes()) != nodes {
			t.Errorf("%d nodes: %v %+v", nodes, err, plan)
		}
	}
	plan, err := Make(
		context.Background(),
		equalLayers(t, 3),
		pipeline.Spec{Nodes: 11, GPUsPerNode: 1, GPUMemoryBytes: 100, Faults: 1, Microbatches: 60},
		nil,
	)
	if err != nil || len(plan.Spare) != 2 || len(plan.Nodes()) != 11 {
		t.Errorf("11 nodes, three in each pipeline: %v %+v", err, plan)
	}
}

// TestCoverage checks that with the sizes from the smallest to nodes-faults·smallest, any
// sufficient number of nodes makes faults+1 pipelines, and one node less does not.
func TestCoverage(t *testing.T) {
	p := equalLayers(t, 28)
	for smallest := 1; smallest <= 7; smallest++ {
		for faults := 0; faults <= 4; faults++ {
			needed := (faults + 1) * smallest
			for nodes := needed; nodes < needed+12; nodes++ {
				spec := pipeline.Spec{
					Nodes:          nodes,
					GPUsPerNode:    1,
					GPUMemoryBytes: int64(28+smallest-1) / int64(smallest) * 100,
					Faults:         faults,
					Microbatches:   5040,
				}
				plan, err := Templates(context.Background(), p, spec, nil)
				if err != nil || plan.Smallest() != smallest || plan.Largest() != min(28, nodes-faults*smallest) {
					t.Fatalf("%d nodes, %d faults: %v %+v", nodes, faults, err, plan)
				}
				for left := needed; left <= nodes; left++ {
					if used, best := Combine(context.Background(), plan, left); best == nil || used != left {
						t.Fatalf(
							"smallest %d, %d faults, made for %d nodes: none for %d",
							smallest,
							faults,
							nodes,
							left,
						)
					}
				}
				if used, _ := Combine(context.Background(), plan, needed-1); used != 0 {
					t.Fatalf("smallest %d, %d faults: a plan for %d nodes", smallest, faults, needed-1)
				}
			}
		}
	}
}

// Three stages would keep more in flight than a GPU holds, two do not: there are templates for two
// nodes only, and the remaining nodes are spare.
func TestLargerSizesThatDoNotFit(t *testing.T) {
	layer := pipeline.Layer{Forward: 1000, StateBytes: 1, ActivationBytes: 10}
	p, err := pipeline.NewProfile([]pipeline.Layer{layer, layer, layer})
	if err != nil {
		t.Fatal(err)
	}
	plan, err := Make(
		context.Background(),
		p,
		pipeline.Spec{Nodes: 7, GPUsPerNode: 1, GPUMemoryBytes: 30, Faults: 1, Microbatches: 12},
		nil,
	)
	if err != nil || plan.Smallest() != 2 || plan.Largest() != 2 || len(plan.Pipelines) != 3 || len(plan.Spare) != 1 {
		t.Fatalf("%+v, %v", plan, err)
	}
}

// TestMakeTakesEveryBatch plans random inputs. Those whose batch no pipelines can split evenly
// among equal ones are planned too, with parts that differ by one.
func TestMakeTakesEveryBatch(t *testing.T) {
	r := rand.New(rand.NewSource(8))
	uneven := 0
	for range 1000 {
		p := equalLayers(t, 6+r.Intn(12))
		spec := pipeline.Spec{
			Nodes: 4 + r.Intn(12), GPUsPerNode: 1, GPUMemoryBytes: 200 + r.Int63n(500), Faults: r.Intn(4),
		}
		plan, err := Templates(context.Background(), p, spec, nil)
		if err != nil {
			continue // too few nodes, which other tests check
		}
		fewest := max(spec.Faults+1, (spec.Nodes+plan.Largest()-1)/plan.Largest())
		if fewest > spec.Nodes/plan.Smallest() {
			continue // some nodes are spare
		}
		spec.Microbatches = fewest + r.Intn(9)
		if plan, err = Make(context.Background(), p, spec, nil); err != nil {
			t.Fatalf("%+v, %d layers: %v", spec, p.Len(), err)
		}
		if !checkParts(t, plan) {
			uneven++
			if even := evenTime(plan); even != math.MaxInt64 {
				t.Errorf("%+v, %d layers: uneven parts, and even ones take %d", spec, p.Len(), even)
			}
		}
	}
	if uneven < 7 {
		t.Errorf("only %d batches need uneven parts", uneven)
	}
}

// checkParts checks a plan's parts of the batch, and reports whether equal pipelines have equal
// ones.
func checkParts(t *testing.T, plan *pipeline.Plan) (even bool) {
	t.Helper()
	all, least, most := 0, map[int]int{}, map[int]int{}
	for _, each := range plan.Pipelines {
		all += each.Microbatches
		most[each.Template] = max(most[each.Template], each.Microbatches)
		if n, known := least[each.Template]; !known || each.Microbatches < n {
			least[each.Template] = each.Microbatches
		}
	}
	even = true
	for size := range least {
		if even = even && least[size] == most[size]; least[size] < 1 || most[size] > least[size]+1 {
			t.Errorf("pipelines of %d nodes get from %d to %d microbatches", size, least[size], most[size])
		}
	}
	if all != plan.Spec.Microbatches {
		t.Errorf("%d of %d microbatches", all, plan.Spec.Microbatches)
	}
	return even
}

// evenTime returns the least time of any pipelines of a plan's nodes with equal parts for equal
// ones, by trying all.
func evenTime(plan *pipeline.Plan) int64 {
	p := &Problem{
		Smallest: plan.Smallest(), Nodes: plan.Spec.Nodes - len(plan.Spare), Pipelines: plan.Spec.Faults + 1,
		Microbatches: plan.Spec.Microbatches, AllReduce: plan.Profile.AllReduce,
	}
	for _, t := range plan.Templates {
		p.Lines = append(p.Lines, t.Line())
	}
	return bruteSolve(p)
}

// TestMakeInterrupted: a plan ends with its context, in the search for templates and behind it.
func TestMakeInterrupted(t *testing.T) {
	spec := pipeline.Spec{Nodes: 8, GPUsPerNode: 1, Faults: 1, Microbatches: 60}
	done, cancel := context.WithCancel(context.Background())
	if _, err := Make(done, equalLayers(t, 9), spec, func(sizes, all int) {
		if sizes == all {
			cancel()
		}
	}); !errors.Is(err, context.Canceled) {
		t.Errorf("interrupted at the end of the search: %v", err)
	}
	if _, err := Make(done, equalLayers(t, 9), spec, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("interrupted before it: %v", err)
	}
	plan, err := Templates(context.Background(), equalLayers(t, 9), spec, nil)
	if err != nil {
		t.Fatal(err)
	}
	p := Problem{Smallest: 1, Nodes: 8, Pipelines: 2, Microbatches: 60, AllReduce: plan.Profile.AllReduce}
	for _, each := range plan.Templates {
		p.Lines = append(p.Lines, each.Line())
	}
	if w := p.newWalk(done, 1<<40, maxEffort); w.search(0, 2, 8, 0) && w.steps > checkEvery {
		t.Errorf("a walk goes on for %d states", w.steps)
	}
}
