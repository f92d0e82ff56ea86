package place_test

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/phos-gpu/phos/scheduler"
	"github.com/phos-gpu/phos/scheduler/backfill"
	"github.com/phos-gpu/phos/scheduler/cluster"
	"github.com/phos-gpu/phos/scheduler/order"
	"github.com/phos-gpu/phos/scheduler/place"
	"github.com/phos-gpu/phos/scheduler/schedulertest"
	"github.com/phos-gpu/phos/scheduler/victims"
)

// TestPlacementsInAnEngine runs every placement and backfill in an engine with jobs of all kinds,
// nodes that fail, drain and come back, and preemption. The engine must not refuse any placement,
// and every job ends.
func TestPlacementsInAnEngine(t *testing.T) {
	for _, name := range place.Names() {
		for _, filler := range []string{"none", "easy", "conservative:3"} {
			t.Run(name+", "+filler, func(t *testing.T) {
				for seed := range uint64(6) {
					r := rand.New(rand.NewPCG(seed, 9))
					b, err := backfill.ByName(filler)
					if err != nil {
						t.Fatal(err)
					}
					p := scheduler.Policies{
						Order:    order.FIFO{},
						Place:    placer(t, name),
						Backfill: b,
						Speeds:   place.DefaultSpread,
						Walk:     scheduler.Strict,
					}
					if filler == "none" {
						p.Order, p.Preempt, p.Quantum, p.Walk = order.LAS{}, victims.Tail{}, 5*time.Second, scheduler.Fill
					}
					rough(t, r, p)
				}
			})
		}
	}
}

// happening is an event at a time.
type happening struct {
	at time.Duration
	scheduler.Event
}

// rough plays a random workload with failures on a random cluster.
func rough(t *testing.T, r *rand.Rand, p scheduler.Policies) {
	t.Helper()
	nodes := randomNodes(r, 8, []string{"A", "B"})
	for i := range nodes {
		nodes[i].GPUs, nodes[i].Links = 4, nil
		if r.IntN(2) == 0 {
			nodes[i].Links = randomLinks(r, 4)
		}
	}
	e, err := scheduler.New(nodes, p)
	if err != nil {
		t.Fatal(err)
	}
	lengths, coming := map[cluster.JobID]time.Duration{}, []happening{}
	for i := range 80 {
		made := randomJob(r)
		j := made.Job
		j.ID, j.Submit, j.GPUs, j.GPUMemoryBytes = cluster.JobID(
			i,
		), time.Duration(
			r.IntN(200),
		)*time.Second, min(
			j.GPUs,
			8,
		), 0
		if j.GPUType != "" {
			j.GPUs = min(j.GPUs, 4)
		}
		j.Estimate = time.Duration(1+r.IntN(40)) * time.Second
		lengths[j.ID] = j.Estimate + time.Duration(r.IntN(3)-1)*j.Estimate/2
		coming = append(coming, happening{j.Submit, scheduler.Event{Kind: scheduler.Submitted, Job: j.ID, Facts: &j}})
	}
	for node := range cluster.NodeID(4) {
		at := time.Duration(r.IntN(150)) * time.Second
		down := []scheduler.Kind{scheduler.NodeDown, scheduler.Drained}[r.IntN(2)]
		coming = append(coming, happening{at, scheduler.Event{Kind: down, Node: node}},
			happening{at + 40*time.Second, scheduler.Event{Kind: scheduler.NodeUp, Node: node}})
	}
	if left := follow(t, e, coming, lengths); left > 0 {
		t.Errorf("%d jobs never ended", left)
	}
}

// follow plays the events and their effects, and counts the remaining jobs.
func follow(t *testing.T, e *scheduler.Engine, coming []happening, lengths map[cluster.JobID]time.Duration) int {
	t.Helper()
	runs := map[cluster.JobID]int{}
	for idle := 0; len(coming) > 0 && idle < 1000; idle++ {
		slices.SortStableFunc(coming, func(a, b happening) int { return cmp.Compare(a.at, b.at) })
		now := coming[0].at
		if wake, ok := e.Wake(); ok {
			now = min(now, wake)
		}
		var events []scheduler.Event
		for len(coming) > 0 && coming[0].at == now {
			if ev := coming[0].Event; ev.Kind != scheduler.Finished || runs[ev.Job] == ev.Run {
				events = append(events, ev)
				if ev.Kind == scheduler.Finished {
					delete(lengths, ev.Job)
				}
			}
			coming, idle = coming[1:], 0
		}
		plan, err := e.Step(now, events)
		if err != nil {
			t.Fatalf("at %v: %v", now, err)
		}
		for _, s := range plan.Stops {
			delete(runs, s.Job)
		}
		for _, s := range plan.Starts {
			runs[s.Job] = s.Run
			end := s.Ready + s.Load + scheduler.Span(lengths[s.Job]-s.Done, s.Speed)
			coming = append(coming, happening{end, scheduler.Event{Kind: scheduler.Finished, Job: s.Job, Run: s.Run}})
		}
	}
	return len(lengths)
}

// BenchmarkPlace asks each placement for GPUs for jobs of some sizes, on 10,000 GPUs of which most
// are in use.
func BenchmarkPlace(b *testing.B) {
	r := rand.New(rand.NewPCG(1, 1))
	var nodes []cluster.Node
	for i := range 1250 {
		nodes = append(nodes, cluster.Node{ID: cluster.NodeID(i), GPUs: 8, Rack: fmt.Sprint(i / 32), Links: pairs})
	}
	var jobs []schedulertest.Job
	sizes := []int{1, 4, 8, 64, 512}
	for i, n := range sizes {
		jobs = append(
			jobs,
			schedulertest.Job{Job: cluster.Job{ID: cluster.JobID(i), GPUs: n, Model: "vgg16"}, Phase: scheduler.Waiting},
		)
	}
	for _, node := range nodes {
		for i := range int32(r.IntN(9)) {
			on := cluster.Placement{{Node: node.ID, Index: i}}
			jobs = append(
				jobs,
				schedulertest.Job{
					Job:   cluster.Job{ID: cluster.JobID(len(jobs)), GPUs: 1},
					Phase: scheduler.Running,
					On:    on,
				},
			)
		}
	}
	m := schedulertest.NewView(0, nodes, jobs...)
	for _, name := range place.Names() {
		for i, n := range sizes {
			b.Run(fmt.Sprintf("%s/%d", name, n), func(b *testing.B) {
				p, j := placer(b, name), m.Job(cluster.JobID(i))
				b.ReportAllocs()
				for b.Loop() {
					p.Place(m, j, n)
				}
			})
		}
	}
}

// pairs are the links of eight GPUs, connected in pairs.
var pairs = func() [][]float64 {
	links := make([][]float64, 8)
	for a := range links {
		links[a] = slices.Repeat([]float64{16}, 8)
		links[a][a^1] = 200
	}
	return links
}()
