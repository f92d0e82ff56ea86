package elastic

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/phos-gpu/phos/scheduler/place"
	"github.com/phos-gpu/phos/scheduler/throughput"
)

// TestPackingIsAnOption: Optimus leaves the nodes to the Placer unless it is asked to choose them,
// and its answers are valid both ways.
func TestPackingIsAnOption(t *testing.T) {
	table := throughput.NewTable()
	placed := 0
	for seed := range uint64(300) {
		v := scene(rand.New(rand.NewPCG(seed, 0)))
		for _, pack := range []bool{false, true} {
			a, _, err := ByName("optimus", Parameters{Table: table, Pack: pack})
			if err != nil {
				t.Fatal(err)
			}
			answer := a.Allocate(v)
			if what := breach(v, answer); what != "" {
				t.Fatalf("pack %v, scene %d: %s: %v", pack, seed, what, answer)
			}
			for _, each := range answer {
				if each.On != nil {
					placed++
				}
				if each.On != nil && !pack {
					t.Fatalf("scene %d: job %d is placed on %v", seed, each.Job.ID(), each.On)
				}
			}
		}
	}
	if placed == 0 {
		t.Error("packing placed no job")
	}
}

// TestPackingCostsRestarts: where nodes do not count, packing only moves jobs, and no trace gains
// from it.
func TestPackingCostsRestarts(t *testing.T) {
	table := throughput.NewTable().Common(throughput.Common{Types: []string{"V100"}, Reference: "V100"})
	var packed, left float64
	for seed := range uint64(6) {
		jobs := trace(seed, 30)
		for _, pack := range []bool{false, true} {
			p := policies(t, "optimus", time.Minute)
			p.Place, p.Quantum = place.FirstFree{}, time.Minute
			p.Allocate, p.Speeds, _ = ByName("optimus", Parameters{Table: table, Pack: pack})
			mean := (&run{t: t, nodes: machines(2, 8, "V100"), jobs: jobs}).play(p).mean(jobs)
			if pack {
				packed += mean
			} else {
				left += mean
			}
		}
	}
	if packed < left {
		t.Errorf("packed jobs take %.0f s, others %.0f s", packed, left)
	}
}
