package backfill_test

import (
	"container/heap"
	"fmt"
	"testing"
	"time"

	"github.com/phos-gpu/phos/cluster"
	"github.com/phos-gpu/phos/scheduler"
	"github.com/phos-gpu/phos/scheduler/backfill"
	"github.com/phos-gpu/phos/scheduler/place"
	"github.com/phos-gpu/phos/scheduler/workload/generator"
)

// BenchmarkJobs plays 100,000 jobs of mixed sizes on 10,000 GPUs, at a load that the cluster can bear and one that it cannot.
func BenchmarkJobs(b *testing.B) {
	sizes := generator.Mix{{GPUs: 1, Weight: 50}, {GPUs: 2, Weight: 12}, {GPUs: 4, Weight: 15}, {GPUs: 8, Weight: 15}, {GPUs: 16, Weight: 5}, {GPUs: 64, Weight: 2}, {GPUs: 512, Weight: 1}}
	for _, load := range []float64{0.95, 1.3} {
		for _, wrong := range []float64{0, 1} {
			trace, err := generator.Make("poisson", generator.Parameters{Seed: 1, Jobs: 100_000, GPUs: 10_000, Load: load, Sizes: sizes, EstimateError: wrong})
			if err != nil {
				b.Fatal(err)
			}
			for _, name := range []string{"none", "easy", "conservative:10", "conservative:100"} {
				b.Run(fmt.Sprintf("load %v, estimates off by %v, %s", load, wrong, name), func(b *testing.B) {
					for b.Loop() {
						filler, _ := backfill.ByName(name)
						race(b, oneKind(1250, 8), trace.Jobs, scheduler.Policies{Order: fifo{}, Place: place.BestFit{}, Backfill: filler, Walk: scheduler.Strict})
					}
				})
			}
		}
	}
}

type ending struct {
	at  time.Duration
	job cluster.JobID
}

type endings []ending

func (h endings) Len() int { return len(h) }
func (h endings) Less(i, k int) bool {
	return h[i].at < h[k].at || h[i].at == h[k].at && h[i].job < h[k].job
}
func (h endings) Swap(i, k int) { h[i], h[k] = h[k], h[i] }
func (h *endings) Push(x any)   { *h = append(*h, x.(ending)) }
func (h *endings) Pop() any {
	x := (*h)[len(*h)-1]
	*h = (*h)[:len(*h)-1]
	return x
}

// race plays jobs as fast as it can, and reports how many steps it took and how long the jobs waited.
func race(b *testing.B, nodes []cluster.Node, jobs []cluster.Job, p scheduler.Policies) {
	e, err := scheduler.New(nodes, p)
	if err != nil {
		b.Fatal(err)
	}
	var ends endings
	lengths := map[cluster.JobID]*cluster.Job{}
	for i := range jobs {
		lengths[jobs[i].ID] = &jobs[i]
	}
	steps, waited, next := 0, 0.0, 0
	for next < len(jobs) || len(ends) > 0 {
		var now time.Duration
		if next < len(jobs) && (len(ends) == 0 || jobs[next].Submit < ends[0].at) {
			now = jobs[next].Submit
		} else {
			now = ends[0].at
		}
		var events []scheduler.Event
		for len(ends) > 0 && ends[0].at == now {
			events = append(events, scheduler.Event{Kind: scheduler.Finished, Job: heap.Pop(&ends).(ending).job})
		}
		for next < len(jobs) && jobs[next].Submit == now {
			events = append(events, scheduler.Event{Kind: scheduler.Submitted, Facts: &jobs[next]})
			next++
		}
		plan, err := e.Step(now, events)
		if err != nil {
			b.Fatal(err)
		}
		for _, s := range plan.Starts {
			j := lengths[s.Job]
			heap.Push(&ends, ending{now + scheduler.Span(j.Length, s.Speed), s.Job})
			waited += (now - j.Submit).Seconds()
		}
		steps++
	}
	b.ReportMetric(float64(steps), "steps")
	b.ReportMetric(waited/float64(len(jobs)), "waited-s")
}
