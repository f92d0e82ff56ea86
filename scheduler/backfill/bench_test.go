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
						waited := 0.0
						policies := scheduler.Policies{Order: fifo{}, Place: place.BestFit{}, Backfill: filler, Walk: scheduler.Strict}
						steps := race(b, oneKind(1250, 8), trace.Jobs, policies, func(j *cluster.Job, now time.Duration, _ *scheduler.Start) {
							waited += (now - j.Submit).Seconds()
						})
						b.ReportMetric(float64(steps), "steps")
						b.ReportMetric(waited/float64(len(trace.Jobs)), "waited-s")
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

// race plays jobs as fast as it can, tells of each start, and counts the steps that it took.
func race(b *testing.B, nodes []cluster.Node, jobs []cluster.Job, p scheduler.Policies, started func(*cluster.Job, time.Duration, *scheduler.Start)) (steps int) {
	e, err := scheduler.New(nodes, p)
	if err != nil {
		b.Fatal(err)
	}
	var ends endings
	facts := map[cluster.JobID]*cluster.Job{}
	for i := range jobs {
		facts[jobs[i].ID] = &jobs[i]
	}
	for next := 0; next < len(jobs) || len(ends) > 0; steps++ {
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
		for ; next < len(jobs) && jobs[next].Submit == now; next++ {
			events = append(events, scheduler.Event{Kind: scheduler.Submitted, Facts: &jobs[next]})
		}
		plan, err := e.Step(now, events)
		if err != nil {
			b.Fatal(err)
		}
		for i := range plan.Starts {
			s := &plan.Starts[i]
			j := facts[s.Job]
			heap.Push(&ends, ending{now + scheduler.Span(j.Length, s.Speed), s.Job})
			started(j, now, s)
		}
	}
	return steps
}

// BenchmarkPlacements shows how much placements matter where GPUs that lie apart make jobs slow: the mean time to a job's end, and on how many nodes jobs
// lie that one node could hold.
func BenchmarkPlacements(b *testing.B) {
	models, err := generator.ParseChoice("vgg16:30,resnet50:40,bert:30")
	if err != nil {
		b.Fatal(err)
	}
	sizes := generator.Mix{{GPUs: 1, Weight: 50}, {GPUs: 2, Weight: 15}, {GPUs: 4, Weight: 20}, {GPUs: 8, Weight: 10}, {GPUs: 16, Weight: 5}}
	trace, err := generator.Make("poisson", generator.Parameters{Seed: 1, Jobs: 10_000, GPUs: 512, Load: 0.8, Sizes: sizes, Models: models})
	if err != nil {
		b.Fatal(err)
	}
	nodes := oneKind(64, 8)
	for i := range nodes {
		nodes[i].Rack = fmt.Sprint(i / 8)
	}
	for _, name := range place.Names() {
		b.Run(name, func(b *testing.B) {
			var jct, on, one float64
			for b.Loop() {
				jct, on, one = 0, 0, 0
				p, _ := place.ByName(name, place.Parameters{Mix: place.Mix(trace.Jobs)})
				policies := scheduler.Policies{Order: fifo{}, Place: p, Backfill: backfill.EASY(), Walk: scheduler.Strict, Speeds: place.DefaultSpread}
				race(b, nodes, trace.Jobs, policies, func(j *cluster.Job, now time.Duration, s *scheduler.Start) {
					jct += (now - j.Submit + scheduler.Span(j.Length, s.Speed)).Seconds()
					if j.GPUs > 1 && j.GPUs <= 8 {
						on, one = on+float64(s.On.Nodes()), one+1
					}
				})
			}
			b.ReportMetric(jct/float64(len(trace.Jobs)), "jct-s")
			b.ReportMetric(on/one, "nodes")
		})
	}
}
