package scheduler_test

import (
	"context"
	"fmt"
	"time"

	"github.com/phos-gpu/phos/scheduler"
	"github.com/phos-gpu/phos/scheduler/backfill"
	"github.com/phos-gpu/phos/scheduler/cluster"
	"github.com/phos-gpu/phos/scheduler/order"
	"github.com/phos-gpu/phos/scheduler/packed"
	"github.com/phos-gpu/phos/scheduler/place"
	"github.com/phos-gpu/phos/scheduler/sim"
)

// A scheduler is composed of policies. This one serves jobs by arrival and lets short jobs overtake
// a blocked one: job 2 waits for both nodes and has a reservation at 100 s, before which job 3
// ends. Job 4 would delay it.
func ExamplePolicies() {
	nodes := []cluster.Node{{ID: 0, GPUs: 4}, {ID: 1, GPUs: 4}}
	var jobs []cluster.Job
	for i, j := range []struct {
		gpus   int
		length time.Duration
	}{{4, 100 * time.Second}, {8, 60 * time.Second}, {4, 80 * time.Second}, {2, 90 * time.Second}} {
		jobs = append(jobs, cluster.Job{
			ID: cluster.JobID(i + 1), Submit: time.Duration(i) * time.Second, GPUs: j.gpus,
			Length: j.length, Estimate: j.length,
		})
	}
	result, err := sim.Play(context.Background(), packed.Of(jobs...), sim.Options{
		Nodes:    nodes,
		Policies: scheduler.Policies{Order: order.FIFO{}, Place: place.BestFit{}, Backfill: backfill.NewEASY()},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, j := range result.Jobs.All() {
		fmt.Printf("job %d starts at %v and ends at %v\n", j.ID, j.Start, j.Finish)
	}
	fmt.Printf("makespan %.0f s\n", result.Summary.Makespan)
	// Output:
	// job 1 starts at 0s and ends at 1m40s
	// job 2 starts at 1m40s and ends at 2m40s
	// job 3 starts at 2s and ends at 1m22s
	// job 4 starts at 2m40s and ends at 4m10s
	// makespan 250 s
}
