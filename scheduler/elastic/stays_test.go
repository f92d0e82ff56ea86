package elastic

import (
	"errors"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/phos-gpu/phos/scheduler"
	"github.com/phos-gpu/phos/scheduler/cluster"
	"github.com/phos-gpu/phos/scheduler/order"
	"github.com/phos-gpu/phos/scheduler/place"
	"github.com/phos-gpu/phos/scheduler/throughput"
)

// TestStays: on cordoned nodes and occupied GPUs jobs stay, and get none that are closed or
// occupied; policies give no impossible answer.
func TestStays(t *testing.T) {
	packed := NewOptimus(throughput.NewTable())
	packed.Pack = true
	for name, allocator := range map[string]func() scheduler.Allocator{
		"optimus":        func() scheduler.Allocator { return NewOptimus(throughput.NewTable()) },
		"packed optimus": func() scheduler.Allocator { return packed },
		"pollux":         func() scheduler.Allocator { return NewPollux(throughput.NewTable(), 1) },
		"gavel":          func() scheduler.Allocator { return NewGavel(throughput.NewTable()) },
	} {
		stayed := 0
		for seed := range uint64(20) {
			r := rand.New(rand.NewPCG(seed, 6))
			nodes := []cluster.Node{
				{ID: 0, GPUs: 4, GPUType: "V100"},
				{ID: 1, GPUs: 4, GPUType: "V100"},
				{ID: 2, GPUs: 4, GPUType: "K80"},
			}
			e, err := scheduler.New(nodes, scheduler.Policies{
				Order: order.FIFO{}, Place: place.BestFit{}, Allocate: allocator(), Round: 10 * time.Second,
				Speeds: throughput.NewSpeeds(throughput.NewTable()), Caps: map[string]int{"a": 5},
			})
			if err != nil {
				t.Fatal(err)
			}
			for step := range 60 {
				stays := map[cluster.JobID]bool{}
				events := disturb(r, e, cluster.JobID(step))
				now := time.Duration(step) * 10 * time.Second
				if _, err := e.Step(now-time.Second*time.Duration(min(step, 1)), events); err != nil {
					checkAnswers(t, name, err)
				}
				for j := range e.Running() {
					for _, gpu := range j.Placement() {
						stays[j.ID()] = stays[j.ID()] || !e.Free().Usable(gpu)
					}
				}
				plan, err := e.Step(now, nil) // the round
				checkAnswers(t, name, err)
				for _, stop := range plan.Stops {
					if stays[stop.Job] {
						t.Fatalf("%s, seed %d, step %d: job %d is stopped", name, seed, step, stop.Job)
					}
				}
				for _, start := range plan.Starts {
					for _, gpu := range start.On {
						if !e.Free().Usable(gpu) {
							t.Fatalf("%s, seed %d, step %d: job %d gets GPU %v", name, seed, step, start.Job, gpu)
						}
					}
				}
				stayed += len(stays)
			}
		}
		if stayed < 100 {
			t.Errorf("%s: only %d jobs stayed", name, stayed)
		}
	}
}

// checkAnswers fails for invalid answers of policies. Events may be impossible.
func checkAnswers(t *testing.T, name string, err error) {
	t.Helper()
	var answer *scheduler.PolicyError
	if errors.As(err, &answer) {
		t.Fatalf("%s: %v", name, answer)
	}
}

// disturb returns a new job, ends of jobs, and events of nodes and GPUs.
func disturb(r *rand.Rand, e *scheduler.Engine, id cluster.JobID) []scheduler.Event {
	events := []scheduler.Event{{Kind: scheduler.Submitted, Facts: &cluster.Job{
		ID: id, GPUs: 2, MinGPUs: 1, MaxGPUs: 4, Estimate: 100 * time.Second, Model: "resnet50",
		User: []string{"a", "b"}[r.IntN(2)], Submit: e.Now(),
	}}}
	for j := range e.Running() {
		switch {
		case r.IntN(4) == 0:
			events = append(events, scheduler.Event{Kind: scheduler.Finished, Job: j.ID()})
		case r.IntN(8) == 0 && len(j.Placement()) > 1:
			events = append(events, scheduler.Event{Kind: scheduler.Shrunk, Job: j.ID(), On: j.Placement()[1:]})
		}
	}
	node := cluster.NodeID(r.IntN(3))
	kinds := []scheduler.Kind{scheduler.Cordoned, scheduler.NodeUp, scheduler.NodeUp, scheduler.Occupied, scheduler.Vacated}
	return append(events, scheduler.Event{Kind: kinds[r.IntN(len(kinds))], Node: node, GPU: r.Int32N(4)})
}
