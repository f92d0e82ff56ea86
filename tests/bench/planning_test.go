package bench

import (
	"context"
	"fmt"
	"math/rand"
	"testing"
	"time"

	"github.com/phos-gpu/phos/cluster/pipeline"
	"github.com/phos-gpu/phos/cluster/pipeline/instance"
	"github.com/phos-gpu/phos/cluster/pipeline/replan"
	"github.com/phos-gpu/phos/cluster/pipeline/template"
	"github.com/phos-gpu/phos/scheduler/cluster"
)

// published are the seconds in Oobleck's paper (table 3) for planning one template, by nodes, GPUs
// of a node and layers.
var published = []struct {
	nodes, gpus int
	seconds     map[int]float64
}{
	{8, 1, map[int]float64{24: 0.28, 32: 0.71, 64: 9.65, 96: 68.50}},
	{8, 4, map[int]float64{24: 0.41, 32: 1.15, 64: 11.58, 96: 74.56}},
	{8, 8, map[int]float64{24: 0.54, 32: 1.50, 64: 20.98, 96: 109.76}},
	{16, 1, map[int]float64{24: 3.37, 32: 7.45, 64: 66.35, 96: 540.36}},
	{16, 4, map[int]float64{24: 4.56, 32: 10.41, 64: 108.10, 96: 649.67}},
	{16, 8, map[int]float64{24: 4.90, 32: 11.78, 64: 176.04, 96: 1213.63}},
	{24, 1, map[int]float64{24: 11.35, 32: 30.11, 64: 262.47, 96: 1477.54}},
	{24, 4, map[int]float64{24: 14.78, 32: 45.80, 64: 472.53, 96: 2153.84}},
	{24, 8, map[int]float64{24: 15.59, 32: 49.25, 64: 520.08, 96: 3297.92}},
}

// layersOf returns layers like a transformer's. No two are equal, which is harder than equal ones.
func layersOf(t *testing.T, n int) *pipeline.Profile {
	t.Helper()
	random := rand.New(rand.NewSource(1))
	var layers []pipeline.Layer
	for i := range n {
		layers = append(layers, pipeline.Layer{
			Name: fmt.Sprint(
				i,
			), Forward: time.Duration(1e6 + random.Int63n(1e5)), Backward: time.Duration(2e6 + random.Int63n(1e5)),
			StateBytes: 1e9 + random.Int63n(1e8), ActivationBytes: 1e7,
			InNode: map[int]time.Duration{
				2: 40_000,
				4: 60_000,
				8: 90_000,
			}, Across: map[int]time.Duration{2: 3e6, 8: 4e6, 64: 6e6},
		})
	}
	p, err := pipeline.NewProfile(layers)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// measurePlanning times templates, plans and recoveries, each as the median of several runs.
func measurePlanning(t *testing.T, b *bench) (rows []row) {
	ctx, model := context.Background(), layersOf(t, 96)
	search := template.Search{Profile: model, GPUsPerNode: 1}
	spec := pipeline.Spec{Nodes: 1000, GPUsPerNode: 1, GPUMemoryBytes: 24e9, Faults: 3, Microbatches: 8192}
	var plan *pipeline.Plan
	templates := medianMilliseconds(t, b, func() (err error) { _, err = search.Templates(ctx, 1, 64); return err })
	made := medianMilliseconds(t, b, func() (err error) { plan, err = instance.Make(ctx, model, spec, nil); return err })
	change := replan.Change{}
	for i := range 10 {
		change.Dead = append(change.Dead, cluster.NodeID(97*i+3))
	}
	recovered := medianMilliseconds(t, b, func() error { _, err := replan.Recover(plan, change); return err })
	return append([]row{
		{name: "templates, 96 layers, 1 to 64 nodes", value: templates, unit: "ms", most: 5, note: "all 64 together"},
		{
			name:  "a plan for 1,000 nodes",
			value: made,
			unit:  "ms",
			most:  100,
			note:  fmt.Sprintf("%d templates, %d pipelines", len(plan.Templates), len(plan.Pipelines)),
		},
		{name: "a recovery of 1,000 nodes", value: recovered, unit: "ms", most: 50, note: "from 10 deaths"},
		planLarge(t),
	}, comparePublished(t)...)
}

// planLarge times plan make for 500 layers on 64 nodes of 8 GPUs each, all sizes of pipelines
// included.
func planLarge(t *testing.T) row {
	model := layersOf(t, 500)
	spec := pipeline.Spec{Nodes: 64, GPUsPerNode: 8, GPUMemoryBytes: 80 << 30, Microbatches: 4096}
	began := time.Now()
	plan, err := instance.Make(context.Background(), model, spec, nil)
	if err != nil {
		t.Fatal(err)
	}
	return row{
		name: "a plan, 500 layers, 64 nodes of 8", value: time.Since(began).Seconds(), unit: "s", most: 5,
		note: fmt.Sprintf("%d templates", len(plan.Templates)),
	}
}

// comparePublished compares the time of one template with the published one, which was measured on
// another machine.
func comparePublished(t *testing.T) (rows []row) {
	for _, each := range published {
		for _, layers := range []int{24, 32, 64, 96} {
			model := layersOf(t, layers)
			began := time.Now()
			if _, err := (template.Search{Profile: model, GPUsPerNode: each.gpus}).Templates(
				context.Background(), each.nodes, each.nodes); err != nil {
				t.Fatal(err)
			}
			took := time.Since(began).Seconds()
			rows = append(rows, row{
				name: fmt.Sprintf(
					"%d nodes of %d GPUs, %d layers",
					each.nodes,
					each.gpus,
					layers,
				), value: 1000 * took, unit: "ms",
				note: fmt.Sprintf(
					"published: %g s, %.0f times as long",
					each.seconds[layers],
					each.seconds[layers]/took,
				),
			})
		}
	}
	return rows
}

func medianMilliseconds(t *testing.T, b *bench, do func() error) float64 {
	t.Helper()
	var took []float64
	for range 3 * b.rounds {
		began := time.Now()
		if err := do(); err != nil {
			t.Fatal(err)
		}
		took = append(took, 1000*time.Since(began).Seconds())
	}
	return median(took)
}
