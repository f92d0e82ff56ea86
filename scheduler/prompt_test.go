package scheduler_test

import (
	"testing"

	"github.com/phos-gpu/phos/scheduler"
	"github.com/phos-gpu/phos/scheduler/cluster"
	"github.com/phos-gpu/phos/scheduler/elastic"
	"github.com/phos-gpu/phos/scheduler/order"
	"github.com/phos-gpu/phos/scheduler/place"
)

// TestPromptStarts: between rounds, a job that arrives starts on free GPUs, and takes none of a
// running job's before the next round.
func TestPromptStarts(t *testing.T) {
	jobs := []cluster.Job{
		{ID: 0, Length: 1000 * s, Estimate: 1000 * s, GPUs: 4, MinGPUs: 1, MaxGPUs: 6, Model: "resnet50"},
		{ID: 1, Submit: 10 * s, Length: 100 * s, Estimate: 100 * s, GPUs: 2},
		{ID: 2, Submit: 20 * s, Length: 100 * s, Estimate: 100 * s, GPUs: 2},
	}
	for _, name := range elastic.Names() {
		for _, prompt := range []bool{false, true} {
			allocator, speeds, err := elastic.ByName(name, elastic.Parameters{Seed: 1})
			if err != nil {
				t.Fatal(err)
			}
			p := scheduler.Policies{
				Order: order.FIFO{}, Place: place.BestFit{}, Allocate: allocator, Speeds: speeds, Round: 60 * s, PromptStarts: prompt,
			}
			r := simulate(t, nodes(1, 8), p, jobs)
			first, second := 60*s, 60*s
			if prompt {
				first = 10 * s
				if second = 20 * s; name == "optimus" {
					second = 60 * s // the first job has the other six GPUs
				}
			}
			if r.Jobs.At(1).Start != first || r.Jobs.At(2).Start != second {
				t.Errorf("%s, prompt %v: jobs start at %v and %v, want %v and %v",
					name, prompt, r.Jobs.At(1).Start, r.Jobs.At(2).Start, first, second)
			}
			for _, run := range r.Runs {
				if run.Job == 0 && run.To < 60*s {
					t.Errorf("%s, prompt %v: the running job is stopped at %v", name, prompt, run.To)
				}
			}
		}
	}
}
