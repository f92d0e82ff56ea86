package backfill_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/phos-gpu/phos/scheduler"
	"github.com/phos-gpu/phos/scheduler/backfill"
	"github.com/phos-gpu/phos/scheduler/cluster"
	"github.com/phos-gpu/phos/scheduler/packed"
	"github.com/phos-gpu/phos/scheduler/place"
	"github.com/phos-gpu/phos/scheduler/sim"
	"github.com/phos-gpu/phos/scheduler/workload/generator"
)

// BenchmarkJobs plays 100,000 jobs of mixed sizes on 10,000 GPUs, below and above the cluster's
// capacity.
func BenchmarkJobs(b *testing.B) {
	sizes := generator.Mix{
		{GPUs: 1, Weight: 50},
		{GPUs: 2, Weight: 12},
		{GPUs: 4, Weight: 15},
		{GPUs: 8, Weight: 15},
		{GPUs: 16, Weight: 5},
		{GPUs: 64, Weight: 2},
		{GPUs: 512, Weight: 1},
	}
	for _, load := range []float64{0.95, 1.3} {
		for _, wrong := range []float64{0, 1} {
			trace, err := generator.Make(
				"poisson",
				generator.Parameters{
					Seed:          1,
					Jobs:          100_000,
					GPUs:          10_000,
					Load:          load,
					Sizes:         sizes,
					EstimateError: wrong,
				},
			)
			if err != nil {
				b.Fatal(err)
			}
			for _, name := range []string{"none", "easy", "conservative:10", "conservative:100"} {
				b.Run(fmt.Sprintf("load %v, estimates off by %v, %s", load, wrong, name), func(b *testing.B) {
					for b.Loop() {
						filler, _ := backfill.ByName(name)
						policies := scheduler.Policies{
							Order:    fifo{},
							Place:    place.BestFit{},
							Backfill: filler,
							Walk:     scheduler.Strict,
						}
						r := simulate(b, oneKind(1250, 8), trace.Jobs, policies)
						b.ReportMetric(r.Summary.AvgStartDelay, "waited-s")
					}
				})
			}
		}
	}
}

// simulate plays jobs.
func simulate(b *testing.B, nodes []cluster.Node, jobs *packed.Jobs, p scheduler.Policies) *sim.Result {
	r, err := sim.Play(context.Background(), jobs, sim.Options{Nodes: nodes, Policies: p})
	if err != nil || r.Summary.N != jobs.Len() {
		b.Fatal(err)
	}
	return r
}

// BenchmarkPlacements shows how much placement matters if distant GPUs slow jobs down: the mean
// completion time, and on how many nodes jobs run that one node could hold.
func BenchmarkPlacements(b *testing.B) {
	models, err := generator.ParseChoice("vgg16:30,resnet50:40,bert:30")
	if err != nil {
		b.Fatal(err)
	}
	sizes := generator.Mix{
		{GPUs: 1, Weight: 50},
		{GPUs: 2, Weight: 15},
		{GPUs: 4, Weight: 20},
		{GPUs: 8, Weight: 10},
		{GPUs: 16, Weight: 5},
	}
	trace, err := generator.Make(
		"poisson",
		generator.Parameters{Seed: 1, Jobs: 10_000, GPUs: 512, Load: 0.8, Sizes: sizes, Models: models},
	)
	if err != nil {
		b.Fatal(err)
	}
	nodes := oneKind(64, 8)
	for i := range nodes {
		nodes[i].Rack = fmt.Sprint(i / 8)
	}
	for _, name := range place.Names() {
		b.Run(name, func(b *testing.B) {
			var r *sim.Result
			for b.Loop() {
				p, _ := place.ByName(name, place.Parameters{Mix: place.Mix(trace.Jobs)})
				r = simulate(b, nodes, trace.Jobs, scheduler.Policies{
					Order: fifo{}, Place: p, Backfill: backfill.NewEASY(), Walk: scheduler.Strict, Speeds: place.DefaultSpread,
				})
			}
			on, one := 0, 0
			for _, run := range r.Runs {
				if n := len(run.On); n > 1 && n <= 8 {
					on, one = on+run.On.Nodes(), one+1
				}
			}
			b.ReportMetric(r.Summary.AvgJCT, "jct-s")
			b.ReportMetric(float64(on)/float64(one), "nodes")
		})
	}
}
