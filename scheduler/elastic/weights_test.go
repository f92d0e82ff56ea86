package elastic

import (
	"math"
	"testing"

	"github.com/phos-gpu/phos/scheduler/cluster"
	"github.com/phos-gpu/phos/scheduler/throughput"
)

// TestGavelWeights: jobs that compete for two GPUs get time in proportion to their users' weights
// and priorities, and none more than all of its time.
func TestGavelWeights(t *testing.T) {
	jobs := []cluster.Job{
		{ID: 0, GPUs: 1, User: "a"},
		{ID: 1, GPUs: 1, User: "b"},
		{ID: 2, GPUs: 1, User: "a", Priority: 1},
		{ID: 3, GPUs: 1, User: "c", Priority: -1},
	}
	for _, test := range []struct {
		weights map[string]float64
		want    []float64
	}{
		{nil, []float64{2 * 1 / 4.5, 2 * 1 / 4.5, 2 * 2 / 4.5, 2 * 0.5 / 4.5}},
		{map[string]float64{"b": 2, "c": 4}, []float64{2 * 1. / 7, 2 * 2. / 7, 2 * 2. / 7, 2 * 2. / 7}},
		{map[string]float64{"b": 100}, []float64{1 / 3.5, 1, 2 / 3.5, 0.5 / 3.5}},
	} {
		g := NewGavel(throughput.NewTable())
		g.Weights = test.weights
		had := rounds(t, g, machines(1, 2, "V100"), jobs, 2000)
		for id, want := range test.want {
			if got := had[cluster.JobID(id)]["V100"]; math.Abs(got-want) > 0.02 {
				t.Errorf("weights %v: job %d had %.3f of its time, want %.3f", test.weights, id, got, want)
			}
		}
	}
}
