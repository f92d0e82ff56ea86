package backfill_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/phos-gpu/phos/cluster"
	"github.com/phos-gpu/phos/scheduler"
	"github.com/phos-gpu/phos/scheduler/backfill"
	"github.com/phos-gpu/phos/scheduler/place"
)

// TestDeferredReservationsAreTheSame plays one workload with immediate and with deferred
// reservations, with failures of jobs and nodes: the same jobs start at the same times, and the
// reservations are the same.
func TestDeferredReservationsAreTheSame(t *testing.T) {
	for _, tt := range []struct {
		name   string
		placer func() scheduler.Placer
		make   func(*rand.Rand, int) ([]cluster.Node, []cluster.Job)
	}{
		{"one type", firstFree, oneType},
		{"two types", firstFree, twoTypes},
		{"overlapping sets", firstFree, overlapping},
		{"a placement that refuses", func() scheduler.Placer { return place.Skew{} }, skewed},
	} {
		for _, depth := range []int{0, 2, 5} {
			t.Run(fmt.Sprint(tt.name, ", depth ", depth), func(t *testing.T) {
				reserved := 0
				for seed := range uint64(16) {
					nodes, jobs := tt.make(rand.New(rand.NewPCG(seed, 7)), 80)
					jobs = wrongly(rand.New(rand.NewPCG(seed, 8)), jobs, int(seed%3))
					var logs [2][]string
					for i, order := range []scheduler.Orderer{fifo{}, unsaid{}} {
						w := &world{
							random: rand.New(rand.NewPCG(seed, 9)), book: backfill.Conservative(depth), jobs: jobs,
							troubles: seed%4 > 1, ask: seed%5 == 0,
						}
						logs[i] = w.play(
							t,
							nodes,
							scheduler.Policies{
								Order:    order,
								Place:    tt.placer(),
								Backfill: w.book,
								Walk:     scheduler.Strict,
								Retries:  5,
							},
						)
						reserved += w.reserved
					}
					if !slices.Equal(logs[0], logs[1]) {
						i := 0
						for logs[0][i] == logs[1][i] {
							i++
						}
						t.Fatalf("seed %d: put off: %s; at once: %s", seed, logs[0][i], logs[1][i])
					}
				}
				if reserved < 100 {
					t.Errorf("%d reservations only", reserved)
				}
			})
		}
	}
}

func firstFree() scheduler.Placer { return place.FirstFree{} }

func oneType(r *rand.Rand, n int) ([]cluster.Node, []cluster.Job) {
	return oneKind(4, 4), workload(r, n, 16, "right")
}

// skewed is jobs of which some wait for GPUs that are close to each other.
func skewed(r *rand.Rand, n int) ([]cluster.Node, []cluster.Job) {
	nodes, jobs := oneType(r, n)
	for i := range jobs {
		if r.IntN(2) == 0 {
			jobs[i].Model = "vgg16"
		}
	}
	return nodes, jobs
}

// wrongly makes estimates exact, too long, or wrong in both directions.
func wrongly(r *rand.Rand, jobs []cluster.Job, how int) []cluster.Job {
	for i := range jobs {
		switch how {
		case 1:
			jobs[i].Estimate += time.Duration(r.IntN(20))
		case 2:
			jobs[i].Estimate = time.Duration(1 + r.IntN(40))
		}
	}
	return jobs
}

// world is a cluster with failures.
type world struct {
	random   *rand.Rand
	book     *backfill.Backfiller
	jobs     []cluster.Job
	troubles bool
	ask      bool // record the reservations
	reserved int

	events map[time.Duration][]scheduler.Event
}

// play returns a log of what happened.
func (w *world) play(t *testing.T, nodes []cluster.Node, p scheduler.Policies) (log []string) {
	t.Helper()
	e, err := scheduler.New(nodes, p)
	if err != nil {
		t.Fatal(err)
	}
	w.events = map[time.Duration][]scheduler.Event{}
	for i := range w.jobs {
		w.happens(w.jobs[i].Submit, scheduler.Event{Kind: scheduler.Submitted, Facts: &w.jobs[i]})
	}
	if w.troubles {
		w.trouble(len(nodes))
	}
	for now := time.Duration(0); len(w.events) > 0; now++ {
		events, any := w.events[now]
		if !any {
			continue
		}
		delete(w.events, now)
		plan, _ := e.Step(now, events) // some withdrawn jobs have ended
		for _, s := range plan.Starts {
			w.started(now, &s)
		}
		log = append(log, fmt.Sprintf("at %d: %v", now, plan))
		if w.ask && w.random.IntN(3) == 0 {
			log = append(log, fmt.Sprint("at ", now, " ", w.reservations(e)))
		}
	}
	return log
}

func (w *world) happens(at time.Duration, e scheduler.Event) {
	w.events[at] = append(w.events[at], e)
}

// trouble withdraws jobs, and lets nodes fail and come back.
func (w *world) trouble(nodes int) {
	for range 6 {
		at, node := time.Duration(w.random.IntN(300)), cluster.NodeID(w.random.IntN(nodes))
		w.happens(
			at,
			scheduler.Event{
				Kind: []scheduler.Kind{scheduler.NodeDown, scheduler.Drained}[w.random.IntN(2)],
				Node: node,
			},
		)
		w.happens(at+time.Duration(1+w.random.IntN(40)), scheduler.Event{Kind: scheduler.NodeUp, Node: node})
		w.happens(
			time.Duration(w.random.IntN(300)),
			scheduler.Event{Kind: scheduler.Withdrawn, Job: cluster.JobID(w.random.IntN(len(w.jobs)))},
		)
	}
}

// started lets a job end, or fail.
func (w *world) started(now time.Duration, s *scheduler.Start) {
	i := slices.IndexFunc(w.jobs, func(j cluster.Job) bool { return j.ID == s.Job })
	kind, after := scheduler.Finished, w.jobs[i].Length-s.Done
	if w.troubles && w.random.IntN(20) == 0 {
		kind, after = scheduler.Failed, (after+1)/2
	}
	w.happens(now+after, scheduler.Event{Kind: kind, Job: s.Job, Run: s.Run})
}

func (w *world) reservations(e *scheduler.Engine) string {
	var all []string
	for j := range e.Waiting() {
		if at, ok := w.book.ReservedFor(j); ok {
			w.reserved++
			all = append(all, fmt.Sprintf("%d at %d", j.ID(), at))
		}
	}
	return fmt.Sprint(all)
}
