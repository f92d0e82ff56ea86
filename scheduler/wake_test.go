package scheduler

import (
	"maps"
	"testing"
	"time"
)

// byTurns has one queue for each 20 s of service, by arrival in each: ranks do not grow, but change
// at known times.
type byTurns struct{}

func (byTurns) Preempts() bool { return true }
func (byTurns) Rank(v View, j *Job) Rank {
	const turn = 20 * s
	had := j.Attained(v.Now())
	r := Rank{Tier: int(had / turn)}
	if j.Phase() == Running {
		r.Until = max(v.Now(), j.WorksFrom()) + turn - had%turn
	}
	return r
}

// TestWakesInTime compares an engine that sleeps until something can change, and looks only at
// the first job of each shape, with one that walks its queue at every time at which any running job
// comes to rank behind any waiting one.
func TestWakesInTime(t *testing.T) {
	orders := map[string]Orderer{
		"las":   byService{},
		"las2d": byService{perGPU: true},
		"srtf":  byRemaining{},
		"turns": byTurns{},
	}
	slept := 0
	for name, o := range orders {
		for seed := range uint64(4) {
			p := Policies{Order: o, Place: anywhere{}, Preempt: enough{}, Quantum: time.Duration(seed%3) * 4 * s}
			if seed%4 == 3 {
				p.Walk = Strict
			}
			jobs := crowd(seed, 80)
			for i := range jobs {
				jobs[i].Submit, jobs[i].Length = jobs[i].Submit/4, jobs[i].Length*3
			}
			sleeps := prepare(t, machines(5, 4), p, jobs)
			sleeps.run()
			wakes := prepare(t, machines(5, 4), p, jobs)
			wakes.eager = true
			wakes.run()
			if !maps.Equal(sleeps.finished, wakes.finished) || sleeps.stops != wakes.stops ||
				sleeps.starts != wakes.starts {
				t.Errorf(
					"%s, seed %d: %d stops, and %d if the engine looks at every crossing",
					name,
					seed,
					sleeps.stops,
					wakes.stops,
				)
			}
			slept += wakes.steps - sleeps.steps
		}
	}
	if slept < 100 {
		t.Errorf("only %d steps were skipped", slept)
	}
}

// crossings calls consider for all future times at which a running job comes to rank behind a
// waiting one.
func (e *Engine) crossings(consider func(time.Duration)) {
	for w := range e.Waiting() {
		for _, s := range w.group.series {
			s.jobs.Each(func(r *Job) bool {
				at, will := s.crossesAt(r.inSeries, w.rank, e.now, e.policies.Quantum > 0)
				if will && s.growth > 0 && r.rank.Tier == w.rank.Tier && at > e.now+1 {
					consider(at)
				}
				return true
			})
		}
	}
}
