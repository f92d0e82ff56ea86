package replan

import (
	"math"
	"slices"
	"testing"

	"github.com/phos-gpu/phos/cluster/pipeline"
	"github.com/phos-gpu/phos/scheduler/cluster"
)

// shortest returns the shortest iteration of any pipelines on as many nodes as can be used, by
// trying all sizes. Equal pipelines have equal parts of the batch.
func shortest(plan *pipeline.Plan, nodes int) (used int, time int64) {
	for ; nodes > 0; nodes-- {
		time = math.MaxInt64
		partitions(plan.Smallest(), nodes, plan.Largest(), nil, func(sizes []int) {
			if len(sizes) > plan.Spec.Faults {
				time = min(time, slowest(plan, sizes))
			}
		})
		if time < math.MaxInt64 {
			return nodes, time
		}
	}
	return 0, 0
}

// TestBalance kills nodes of plans of small clusters, and compares what Balance makes with all
// sizes, and the bytes for its sizes with all assignments.
func TestBalance(t *testing.T) {
	cases, shorter := 0, 0
	for _, p := range []*pipeline.Profile{equalModel(t, 10, 1000), model(t, 10)} {
		for smallest := 1; smallest <= 3; smallest++ {
			for faults := 0; faults <= 1; faults++ {
				const nodes = 8
				partitions(smallest, nodes, nodes-faults*smallest, nil, func(sizes []int) {
					if len(sizes) <= faults {
						return
					}
					plan := planOf(t, p, faults, smallest, nodes-faults*smallest, sizes...)
					plan.Spec.Microbatches = 60 // any number of pipelines up to 6 can have equal parts
					for first := range nodes {
						for second := first; second < nodes; second++ {
							c := Change{Dead: sortedSet(ids(first, second))}
							balanced(t, plan, c)
							r, _ := Balance(plan, c)
							cases++
							if r.Plan.IterationTime() < recovered(t, plan, c).Plan.IterationTime() {
								shorter++
							}
						}
					}
				})
			}
		}
	}
	if cases < 2000 || shorter < cases/20 {
		t.Errorf("only %d of %d are shorter than a recovery's", shorter, cases)
	}
}

// balanced checks what Balance makes of a change.
func balanced(t *testing.T, plan *pipeline.Plan, c Change) {
	t.Helper()
	r, err := Balance(plan, c)
	if err != nil {
		t.Fatal(err)
	}
	left := slices.DeleteFunc(plan.Nodes(), func(node cluster.NodeID) bool { return slices.Contains(c.Dead, node) })
	sound(t, plan, c, r)
	used, time := shortest(plan, len(left))
	if got := r.Plan.IterationTime(); got != time || len(r.Plan.Spare) != len(left)-used {
		t.Fatalf("%v, dead %v: %v take %d, by trying all %d", sizesOf(plan), c.Dead, sizesOf(r.Plan), got, time)
	}
	if want := fewestBytes(plan, left, sizesOf(r.Plan)); sentBytes(r) != want {
		t.Fatalf("%v, dead %v: %v, %d bytes, by trying all %d", sizesOf(plan), c.Dead, sizesOf(r.Plan), sentBytes(r), want)
	}
}
