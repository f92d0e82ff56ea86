package sim

import (
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/phos-gpu/phos/scheduler/cluster"
)

// randomResult returns a result whose fields each are, in half of all cases, as most jobs have
// them.
func randomResult(r *rand.Rand, id int) JobResult {
	j := JobResult{
		ID: cluster.JobID(id), User: "u", GPUs: 1 + r.IntN(4), Share: cluster.WholeGPU, Length: time.Duration(r.Int64N(1e15)),
		Submit: time.Duration(r.Int64N(1e15)), Outcome: Outcome(r.IntN(3)), Started: true, Runs: 1,
	}
	j.Start, j.Contention = j.Submit, r.Float64()
	j.Finish = j.Start + time.Duration(r.Int64N(1e15))
	j.Ran = j.Finish - j.Start
	j.GPUSeconds = gpuSeconds(j.Ran, j.GPUs, j.Share)
	for _, each := range []func(){
		func() { j.Started, j.Runs = false, 0 },
		func() { j.Start += time.Duration(r.IntN(9)) },
		func() { j.Finish = 0 },
		func() { j.Ran = time.Duration(r.Int64()) },
		func() { j.GPUSeconds = r.NormFloat64() },
		func() { j.Preemptions = r.IntN(1 << 40) },
		func() { j.Failures = r.IntN(3) },
		func() { j.Migrations, j.Resizes, j.Restarts = r.Int32(), r.Int32(), r.Int32() },
		func() {
			for range 1 + r.IntN(40) {
				j.Placement = append(j.Placement, cluster.GPU{Node: cluster.NodeID(r.Int32()), Index: r.Int32()})
			}
		},
	} {
		if r.IntN(2) == 0 {
			each()
		}
	}
	return j
}

// TestJobResults compares packed results with the results themselves.
func TestJobResults(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 1))
	var want []JobResult
	for i := range 3000 {
		want = append(want, randomResult(r, i))
	}
	got := ResultsOf(want...)
	if !reflect.DeepEqual(got.Slice(), want) {
		t.Fatal("the results are others")
	}
	for i, j := range got.All() {
		unplaced := got.Unplaced(i)
		if unplaced.Placement = want[i].Placement; !reflect.DeepEqual(j, unplaced) {
			t.Fatalf("job %d is %+v without its placement", i, unplaced)
		}
	}
	if (*JobResults)(nil).Len() != 0 {
		t.Error("nil has results")
	}
}

// TestTimeline compares packed samples with the samples themselves, and thins them.
func TestTimeline(t *testing.T) {
	r := rand.New(rand.NewPCG(4, 1))
	var want []Sample
	for range 1001 {
		want = append(want, Sample{
			At: time.Duration(r.Int64N(1e18)), Running: r.IntN(9), Waiting: r.IntN(1e6), Held: r.IntN(3), Demand: r.IntN(1 << 40),
			BusyMilli: r.Int64N(1e12), Capacity: r.IntN(1e5),
		})
	}
	got := TimelineOf(want...)
	for len(want) > 0 {
		if !slices.Equal(slices.Collect(got.All()), want) || got.Len() != len(want) || got.Last() != want[len(want)-1] {
			t.Fatalf("of %d samples some are others", len(want))
		}
		if len(want) == 1 {
			break
		}
		got.thin()
		var kept []Sample
		for i := 0; i < len(want); i += 2 {
			kept = append(kept, want[i])
		}
		want = kept
	}
	var none Timeline
	if none.Len() != 0 || len(slices.Collect(none.All())) != 0 {
		t.Error("the empty timeline has samples")
	}
}
