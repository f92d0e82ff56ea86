package order_test

import (
	"testing"

	"github.com/phos-gpu/phos/scheduler"
	"github.com/phos-gpu/phos/scheduler/cluster"
	"github.com/phos-gpu/phos/scheduler/order"
	"github.com/phos-gpu/phos/scheduler/place"
)

// TestDRFAfterCordon has a user with most of the GPUs and one with a fifth of the memory. Without a
// node that has most of the memory, the second one's share is the larger, although none of its jobs
// has changed.
func TestDRFAfterCordon(t *testing.T) {
	const gib = 1 << 30
	nodes := []cluster.Node{{ID: 0, GPUs: 4, GPUMemoryBytes: 10 * gib}, {ID: 1, GPUs: 4, GPUMemoryBytes: 90 * gib}}
	for _, c := range []struct {
		closed bool
		first  cluster.JobID
	}{{false, 5}, {true, 4}} {
		e, err := scheduler.New(nodes, scheduler.Policies{Order: order.DRF{}, Place: place.FirstFree{}})
		if err != nil {
			t.Fatal(err)
		}
		jobs := []cluster.Job{
			{ID: 0, User: "gpus", GPUs: 3},
			{ID: 1, User: "other", GPUs: 1},
			{ID: 2, User: "memory", GPUs: 1, GPUMemoryBytes: 80 * gib},
			{ID: 3, User: "another", GPUs: 3},
			{ID: 4, User: "gpus", GPUs: 1},
			{ID: 5, User: "memory", GPUs: 1, GPUMemoryBytes: gib},
		}
		for i := range jobs {
			jobs[i].Estimate = seconds(100)
			step(t, e, scheduler.Event{Kind: scheduler.Submitted, Facts: &jobs[i]})
		}
		if c.closed {
			step(t, e, scheduler.Event{Kind: scheduler.Cordoned, Node: 1})
		}
		starts := step(t, e, scheduler.Event{Kind: scheduler.Finished, Job: 1}).Starts
		if len(starts) != 1 || starts[0].Job != c.first {
			t.Errorf("node 1 closed: %v: %+v start, want job %d", c.closed, starts, c.first)
		}
	}
}

// step passes an event to an engine.
func step(t *testing.T, e *scheduler.Engine, event scheduler.Event) scheduler.Plan {
	t.Helper()
	plan, err := e.Step(e.Now(), []scheduler.Event{event})
	if err != nil {
		t.Fatal(err)
	}
	return plan
}
