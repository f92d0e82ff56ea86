package tryout

import (
	"testing"
	"time"

	"github.com/phos-gpu/phos/scheduler"
	"github.com/phos-gpu/phos/scheduler/cluster"
	"github.com/phos-gpu/phos/scheduler/packed"
	"github.com/phos-gpu/phos/scheduler/place"
	"github.com/phos-gpu/phos/scheduler/schedulertest"
	"github.com/phos-gpu/phos/scheduler/sim"
	"github.com/phos-gpu/phos/scheduler/victims"
)

func TestRank(t *testing.T) {
	gpu := cluster.Placement{{Node: 0, Index: 0}}
	v := schedulertest.NewView(20*time.Minute, []cluster.Node{{GPUs: 8}},
		schedulertest.Job{Job: cluster.Job{ID: 1, GPUs: 1}, Phase: scheduler.Running, On: gpu, Since: 14 * time.Minute},
		schedulertest.Job{Job: cluster.Job{ID: 2, GPUs: 1}, Phase: scheduler.Waiting, Attained: 10 * time.Minute},
		schedulertest.Job{Job: cluster.Job{ID: 3, GPUs: 1}, Phase: scheduler.Waiting},
	)
	for id, want := range map[cluster.JobID]scheduler.Rank{
		1: {Tier: 0, Until: 24 * time.Minute},
		2: {Tier: 1},
		3: {Tier: 0},
	} {
		if got := (Tryout{10 * time.Minute}).Rank(v, v.Job(id)); got != want {
			t.Errorf("job %d: got %+v, want %+v", id, got, want)
		}
	}
}

func TestSimulation(t *testing.T) {
	jobs := []cluster.Job{
		{ID: 1, Length: 60 * time.Minute, GPUs: 4},
		{ID: 2, Submit: 30 * time.Minute, Length: 20 * time.Minute, GPUs: 4},
		{ID: 3, Submit: 35 * time.Minute, Length: 5 * time.Minute, GPUs: 4},
	}
	result, err := sim.Play(t.Context(), packed.Of(jobs...), sim.Options{
		Nodes:    []cluster.Node{{GPUs: 4}},
		Policies: scheduler.Policies{Order: Tryout{10 * time.Minute}, Place: place.FirstFree{}, Preempt: victims.Tail{}},
	})
	if err != nil {
		t.Fatal(err)
	}
	// Job 2 preempts job 1 after 30 minutes and has its trial until 40; then job 3 has its trial; then
	// all continue by arrival.
	for i, want := range []time.Duration{75 * time.Minute, 85 * time.Minute, 45 * time.Minute} {
		if got := result.Jobs.At(i).Finish; got != want {
			t.Errorf("job %d ends at %v, want %v", i+1, got, want)
		}
	}
}
