package order

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/phos-gpu/phos/scheduler"
	"github.com/phos-gpu/phos/scheduler/cluster"
	"github.com/phos-gpu/phos/scheduler/schedulertest"
)

// TestLASServesTheLeast: no waiting job has less service than a running one.
func TestLASServesTheLeast(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 3))
	for range 50 {
		y := newToy(LAS{}, 2, some(r, 8, 20, 12, 1))
		had := make([]int, len(y.jobs))
		y.watch = func(now time.Duration, _ scheduler.View, running []*toyJob) {
			for _, waits := range y.jobs {
				if waits.Phase != scheduler.Waiting || waits.Submit > now {
					continue
				}
				for _, runs := range running {
					if had[waits.ID] < had[runs.ID] {
						t.Fatalf(
							"at %v job %d waits after %d s of service, job %d runs after %d s",
							now,
							waits.ID,
							had[waits.ID],
							runs.ID,
							had[runs.ID],
						)
					}
				}
			}
			for _, runs := range running {
				had[runs.ID]++
			}
		}
		y.play(t)
	}
	worked := []cluster.Job{{Length: seconds(4)}, {Submit: seconds(2), Length: seconds(3)}}
	if got := newToy(LAS{}, 1, worked).play(t).ends(); !slices.Equal(got, []int{7, 6}) {
		t.Errorf("two jobs end at %v", got)
	}
}

// queues is multi-level feedback as in Tiresias's paper, with lists in place of ranks: a job that
// passes a limit moves to the next list; each list is walked in the order of first starts, and jobs
// that never started come last, by arrival.
type queues struct {
	limits []int
	lists  [][]*queued
}

type queued struct {
	id, arrived, gpus, length, ran, first int
}

func (q *queues) step(now, free int) (ended []*queued) {
	var running []*queued
	for _, list := range q.lists {
		slices.SortStableFunc(list, func(a, b *queued) int {
			switch {
			case a.first != b.first && (a.first < 0 || b.first < 0):
				return b.first - a.first
			case a.first != b.first:
				return a.first - b.first
			case a.arrived != b.arrived:
				return a.arrived - b.arrived
			}
			return a.id - b.id
		})
		for _, j := range list {
			if j.gpus <= free {
				free -= j.gpus
				running = append(running, j)
			}
		}
	}
	for _, j := range running {
		if j.first < 0 {
			j.first = now
		}
		j.ran++
		for i := range q.limits {
			at := slices.Index(q.lists[i], j)
			if at >= 0 && j.ran*j.gpus >= q.limits[i] {
				q.lists[i] = slices.Delete(q.lists[i], at, at+1)
				q.lists[i+1] = append(q.lists[i+1], j)
			}
		}
		if j.ran == j.length {
			ended = append(ended, j)
			for i, list := range q.lists {
				q.lists[i] = slices.DeleteFunc(list, func(other *queued) bool { return other == j })
			}
		}
	}
	return ended
}

func TestDLASIsFeedbackQueues(t *testing.T) {
	r := rand.New(rand.NewPCG(4, 4))
	for range 200 {
		jobs := some(r, 9, 30, 15, 3)
		q := &queues{limits: []int{4, 11}, lists: make([][]*queued, 3)}
		want, left := make([]int, len(jobs)), len(jobs)
		for now := 0; left > 0; now++ {
			for i, job := range jobs {
				if job.Submit == seconds(now) {
					q.lists[0] = append(q.lists[0], &queued{i, now, job.GPUs, int(job.Length / time.Second), 0, -1})
				}
			}
			for _, j := range q.step(now, 4) {
				want[j.id] = now + 1
				left--
			}
		}
		order := DLAS{Limits: []time.Duration{seconds(4), seconds(11)}, TwoD: true}
		if got := newToy(order, 4, jobs).play(t).ends(); !slices.Equal(got, want) {
			t.Fatalf("%v end at %v, want %v", jobs, got, want)
		}
	}
}

// TestDLASAsksAtTheLimit has Tiresias's limits and a job of four GPUs that ran for 500 s before.
func TestDLASAsksAtTheLimit(t *testing.T) {
	order, err := ByName("dlas-gpu", Parameters{})
	if err != nil {
		t.Fatal(err)
	}
	on := cluster.Placement{{Index: 0}, {Index: 1}, {Index: 2}, {Index: 3}}
	job := schedulertest.Job{
		Job: cluster.Job{GPUs: 4}, Phase: scheduler.Running, On: on, Since: seconds(1000), Runs: 2, First: seconds(300),
		Attained: seconds(500), Service: seconds(2000),
	}
	for _, c := range []struct {
		now, until time.Duration
		tier       int
	}{
		{seconds(1000), seconds(1000) + 312500*time.Millisecond, 0},
		{seconds(1312), seconds(1312) + 500*time.Millisecond, 0},
		{seconds(1312) + 500*time.Millisecond, seconds(2300), 1},
		{seconds(2299), seconds(2300), 1},
		{seconds(2300), 0, 2},
	} {
		v := schedulertest.NewView(c.now, []cluster.Node{{GPUs: 4}}, job)
		if got := order.Rank(v, v.Job(0)); got != (scheduler.Rank{Tier: c.tier, Value: 300, Until: c.until}) {
			t.Errorf("at %v: %+v", c.now, got)
		}
	}
}

func TestDLASPromotes(t *testing.T) {
	order := DLAS{Limits: []time.Duration{seconds(10)}, Promote: 2}
	had := schedulertest.Job{
		Job:          cluster.Job{GPUs: 1},
		Runs:         1,
		First:        seconds(3),
		Attained:     seconds(50),
		WaitingSince: seconds(100),
	}
	waiting, running := had, had
	waiting.Phase, running.Phase = scheduler.Waiting, scheduler.Running
	running.Since, running.On = seconds(230), cluster.Placement{{}}
	for _, c := range []struct {
		job  schedulertest.Job
		now  int
		want scheduler.Rank
	}{
		{waiting, 150, scheduler.Rank{Tier: 1, Value: 3, Until: seconds(200)}},
		{waiting, 200, scheduler.Rank{Tier: 0, Value: 3}},
		{running, 230, scheduler.Rank{Tier: 0, Value: 3, Until: seconds(240)}},
		{running, 239, scheduler.Rank{Tier: 0, Value: 3, Until: seconds(240)}},
		{running, 240, scheduler.Rank{Tier: 1, Value: 3}},
	} {
		v := schedulertest.NewView(seconds(c.now), []cluster.Node{{GPUs: 1}}, c.job)
		if got := order.Rank(v, v.Job(0)); got != c.want {
			t.Errorf("at %d s: %+v, want %+v", c.now, got, c.want)
		}
	}
}

// TestLinesHold compares the predictions of ranks with later ranks, for all orders, while a job
// runs.
func TestLinesHold(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 5))
	for _, name := range Names() {
		order, err := ByName(
			name,
			Parameters{Quotas: map[string]float64{"": 4}, Limits: []time.Duration{seconds(5), seconds(20)}, Promote: 1},
		)
		if err != nil {
			t.Fatal(err)
		}
		for range 300 {
			checkLine(t, r, name, order)
		}
	}
}

func checkLine(t *testing.T, r *rand.Rand, name string, order scheduler.Orderer) {
	t.Helper()
	on := cluster.Placement{{Index: 0}, {Index: 1}}[:1+r.IntN(2)]
	ran := time.Duration(r.IntN(50_000)) * time.Millisecond
	job := schedulertest.Job{
		Job:   cluster.Job{GPUs: len(on), Estimate: 5 * time.Hour, Submit: seconds(r.IntN(50))},
		Phase: scheduler.Running, On: on, Since: seconds(100), WaitingSince: seconds(100 - r.IntN(50)), Runs: 1 + r.IntN(3),
		Attained: ran, Done: ran, Service: ran * time.Duration(len(on)), Speed: []float64{1, 0.5, 1.25}[r.IntN(3)],
	}
	at := func(now time.Duration) scheduler.Rank {
		v := schedulertest.NewView(now, []cluster.Node{{GPUs: 4}}, job)
		return order.Rank(v, v.Job(0))
	}
	now := seconds(100) + time.Duration(r.IntN(1e6))*time.Microsecond
	rank := at(now)
	later := now + time.Duration(r.Int64N(int64(time.Hour)))
	if rank.Until != 0 {
		if rank.Until <= now {
			t.Fatalf("%s: %+v is over at %v", name, rank, now)
		}
		later = now + time.Duration(r.Int64N(int64(rank.Until-now)))
	}
	rank.Value += rank.Growth * (later - now).Seconds()
	then := at(later)
	if gap := rank.Value - then.Value; rank.Tier != then.Tier || gap > 1e-3 || gap < -1e-3 {
		t.Fatalf("%s: ranked at %v to be %+v at %v, but is %+v", name, now, rank, later, then)
	}
}
