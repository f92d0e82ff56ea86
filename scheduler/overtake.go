package scheduler

import (
	"math"
	"time"

	"github.com/phos-gpu/phos/cluster"
)

// overtake lets jobs go before the first one that does not fit, as far as a Backfiller allows.
func (e *Engine) overtake(first *Job, w *walk) bool {
	if e.policies.Backfill == nil {
		return false
	}
	w.book = ask(e, "backfill", func() Book { return e.policies.Backfill.Open(e) })
	w.victims = false
	if w.book == nil {
		return false
	}
	e.promise(first, w)
	return true
}

// promise enters a job that cannot start. Once nobody else is promised anything, the queue need not be walked job by job.
func (e *Engine) promise(j *Job, w *walk) {
	w.more = ask(e, "backfill", func() bool { return w.book.Promise(j) })
	if !w.more {
		e.hurry(w)
	}
}

// longest is how long a job may run if it starts now.
func (e *Engine) longest(w *walk, j *Job) time.Duration {
	return ask(e, "backfill", func() time.Duration { return w.book.Longest(j) })
}

// hurry works out which jobs are worth trying: the answer is the same for all of a shape.
func (e *Engine) hurry(w *walk) {
	w.wish.hasty, w.wish.brief = 0, 0
	free := e.free.Whole("")
	for _, s := range e.single {
		if s.queued == 0 || s.bit&w.wish.skip != 0 || s.probe.least() > free {
			continue
		}
		switch most := e.longest(w, s.probe); {
		case most <= 0:
			w.wish.skip |= s.bit
		case most < Forever:
			w.wish.hasty |= s.bit
			w.wish.brief = max(w.wish.brief, most)
		}
	}
}

// span is how long a job would have GPUs if it started now, until its estimated end.
func (e *Engine) span(j *Job, on cluster.Placement, speed float64) time.Duration {
	span := Span(j.left(), speed)
	if span >= math.MaxInt64/4 {
		return span
	}
	load := e.cost(func(c Costs) time.Duration { return c.Load(j, on) })
	return max(e.readyAt(on), j.saved) - e.now + load + span
}
