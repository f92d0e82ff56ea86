package sim

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/phos-gpu/phos/scheduler"
	"github.com/phos-gpu/phos/scheduler/cluster"
)

// TestNodesFail compares node events with a search through all of them.
func TestNodesFail(t *testing.T) {
	const n, seed, up, repair = 40, 7, time.Hour, time.Minute
	f := newFaults(Faults{Seed: seed, NodeMTBF: up, NodeRepair: repair}, make([]cluster.Node, n))
	random, at, down := make([]*rand.Rand, n), make([]time.Duration, n), make([]bool, n)
	for i := range random {
		random[i] = rand.New(rand.NewPCG(seed, nodeStream<<56|uint64(i)))
		at[i] = exponential(random[i], up)
	}
	for range 2000 {
		first := 0
		for i := range at {
			if at[i] < at[first] {
				first = i
			}
		}
		now, more := f.next()
		if !more || now != at[first] {
			t.Fatalf("something happens at %v, want %v", now, at[first])
		}
		kind, mean := scheduler.NodeDown, repair
		if down[first] {
			kind, mean = scheduler.NodeUp, up
		}
		events := f.appendDue(nil, now)
		if len(events) != 1 || events[0].Kind != kind || events[0].Node != cluster.NodeID(first) {
			t.Fatalf("at %v: %+v, want node %d and kind %v", now, events, first, kind)
		}
		down[first] = !down[first]
		at[first] += exponential(random[first], mean)
	}
}
