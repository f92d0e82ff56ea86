package sim

import (
	"math"
	"testing"

	"github.com/phos-gpu/phos/scheduler/cluster"
	"github.com/phos-gpu/phos/scheduler/packed"
)

// TestJobIndex finds jobs by dense and by sparse numbers, and no number twice.
func TestJobIndex(t *testing.T) {
	for _, ids := range [][]cluster.JobID{
		nil, {7}, {3, 1, 2}, {-2, 0, -1}, {1, 3, 5}, {1, 1000, 2}, {math.MinInt64, math.MaxInt64, 0},
	} {
		var jobs []cluster.Job
		for _, id := range ids {
			jobs = append(jobs, cluster.Job{ID: id})
		}
		x, err := newJobIndex(packed.Of(jobs...))
		if err != nil {
			t.Fatal(err)
		}
		for i, id := range ids {
			if got := x.of(id); int(got) != i {
				t.Errorf("%d: job %d is at %d, want %d", ids, id, got, i)
			}
		}
		if len(ids) > 0 {
			if _, err := newJobIndex(packed.Of(append(jobs, jobs[0])...)); err == nil {
				t.Errorf("%d: the first number is taken twice", ids)
			}
		}
	}
}
