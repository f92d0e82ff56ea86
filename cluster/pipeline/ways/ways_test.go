package ways

import (
	"context"
	"fmt"
	"math"
	"math/rand"
	"testing"
	"time"

	"github.com/phos-gpu/phos/cluster/pipeline"
	"github.com/phos-gpu/phos/cluster/pipeline/instance"
	"github.com/phos-gpu/phos/cluster/pipeline/replan"
	"github.com/phos-gpu/phos/scheduler/cluster"
)

// planOf returns a plan for some nodes. A layer's state is 1 GB.
func planOf(t *testing.T, nodes int) *pipeline.Plan {
	t.Helper()
	var layers []pipeline.Layer
	for i := range 24 {
		layers = append(layers, pipeline.Layer{
			Name: fmt.Sprint(i), Forward: time.Duration(100+i%5) * time.Millisecond, StateBytes: 1e9,
		})
	}
	profile, err := pipeline.NewProfile(layers)
	if err != nil {
		t.Fatal(err)
	}
	plan, err := instance.Make(context.Background(), profile, pipeline.Spec{Nodes: nodes, GPUsPerNode: 1, Faults: 1, Microbatches: 64}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return plan
}

// predicted is how many iterations a plan makes, by its busiest link.
func predicted(c Costs, r *replan.Result) float64 {
	bytes := map[string]float64{}
	most := 0.0
	for _, each := range r.Transfers {
		for _, stripe := range each.Stripes {
			for _, end := range []string{fmt.Sprint("to ", each.To), fmt.Sprint("from ", stripe.From)} {
				bytes[end] += float64(stripe.Bytes)
				most = max(most, bytes[end])
			}
		}
	}
	left := c.Horizon.Seconds() - c.Pause.Seconds() - most/float64(c.BytesPerSecond)
	return max(0, left) / (float64(r.Plan.IterationTime()) / 1e9)
}

// TestChoose follows random changes of nodes: what is chosen has the most iterations until the next
// change, and each way is chosen sometimes.
func TestChoose(t *testing.T) {
	costs := Costs{Pause: time.Second, BytesPerSecond: 1e9}
	chosen := map[string]int{}
	random := rand.New(rand.NewSource(1))
	for range 30 {
		plan := planOf(t, 20)
		next := cluster.NodeID(20)
		for range 8 {
			var change replan.Change
			if nodes := plan.Nodes(); len(nodes) > 10 && random.Intn(3) > 0 {
				change.Dead = []cluster.NodeID{nodes[random.Intn(len(nodes))]}
			} else {
				change.Joined = []cluster.NodeID{next}
				next++
			}
			costs.Horizon = time.Duration(random.Intn(1000)) * time.Second
			found, err := Choose(All, plan, change, costs)
			if err != nil {
				t.Fatal(err)
			}
			for i, each := range found {
				if want := predicted(costs, each.Result); math.Abs(each.Iterations()-want) > 0.001+1e-6*want {
					t.Fatalf("%s: %.3f iterations, want %.3f", each.Way, each.Iterations(), want)
				}
				if i == 0 || found[0].Way != "recover" && each.Iterations()*1.0099 < found[0].Iterations() ||
					found[0].Way == "recover" && each.Iterations() < found[0].Iterations()*1.0101+0.001 {
					continue
				}
				t.Fatalf("%s is chosen: %+v", found[0].Way, found)
			}
			chosen[found[0].Way]++
			plan = found[0].Result.Plan
		}
	}
	for _, way := range Names() {
		if chosen[way] < 10 {
			t.Errorf("chosen: %v", chosen)
		}
	}
}

// TestShortHorizon: if the next change comes before the layers are copied, or no time is given, few
// bytes are sent.
func TestShortHorizon(t *testing.T) {
	plan := planOf(t, 20)
	change := replan.Change{Dead: plan.Pipelines[0].Nodes[:1]}
	for _, horizon := range []time.Duration{0, time.Second} {
		found, err := Choose(All, plan, change, Costs{Pause: time.Second, BytesPerSecond: 1e6, Horizon: horizon})
		if err != nil || found[0].Way != "recover" || len(found) != 2 {
			t.Errorf("%v: %+v, %v", horizon, found, err)
		}
	}
}

// TestOrder: a failure while others are answered is answered with all of them, and the order in
// which a rank has heard of them does not matter.
func TestOrder(t *testing.T) {
	plan := planOf(t, 20)
	hashes := map[pipeline.Hash]bool{}
	for _, dead := range [][]cluster.NodeID{{3, 11, 12}, {12, 3, 11}, {11, 12, 3, 3}} {
		found, err := Choose(All, plan, replan.Change{Dead: dead}, Usual)
		if err != nil {
			t.Fatal(err)
		}
		hashes[found[0].Result.Plan.Hash()] = true
	}
	if len(hashes) != 1 {
		t.Errorf("%d plans", len(hashes))
	}
}

// TestNoWay: where no way has a plan, the error says why.
func TestNoWay(t *testing.T) {
	plan := planOf(t, 20)
	if found, err := Choose(All, plan, replan.Change{Dead: plan.Nodes()[1:]}, Usual); err == nil {
		t.Errorf("%+v", found)
	}
}

// TestFind: ways are found by name.
func TestFind(t *testing.T) {
	for _, name := range Names() {
		if way, err := Find(name); err != nil || way.Name != name {
			t.Errorf("%s: %+v, %v", name, way, err)
		}
	}
	if _, err := Find("best"); err == nil {
		t.Error("there is a way called best")
	}
}

// TestHugeCosts: what takes centuries is not chosen, and counts as no iteration.
func TestHugeCosts(t *testing.T) {
	plan := planOf(t, 20)
	for _, costs := range []Costs{
		{Pause: time.Second, BytesPerSecond: 1, Horizon: time.Hour},
		{Pause: math.MaxInt64, BytesPerSecond: 1},
		{Pause: math.MaxInt64, BytesPerSecond: math.MaxInt64, Horizon: math.MaxInt64},
	} {
		found, err := Choose(All, plan, replan.Change{Dead: []cluster.NodeID{0, 15}}, costs)
		if err != nil {
			t.Fatal(err)
		}
		for _, each := range found {
			if each.Copying < 0 || each.Thousandths != 0 {
				t.Errorf("%+v: %s copies for %v, and makes %d thousandths", costs, each.Way, each.Copying, each.Thousandths)
			}
		}
		if found[0].Way != "recover" {
			t.Errorf("%+v: chosen %s", costs, found[0].Way)
		}
	}
}
