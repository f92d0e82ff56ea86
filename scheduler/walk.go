package scheduler

import (
	"math"
	"time"

	"github.com/phos-gpu/phos/cluster"
)

// walk is one way through the queue.
type walk struct {
	filter       filter
	reservations Reservations // since the first job was blocked in a strict walk with backfill
	reserving    bool         // everybody who cannot start is promised a time
	tried        int
	victims      bool // whether somebody may still be stopped for a waiting job
}

// walk gives GPUs to waiting jobs, in their order.
func (e *Engine) walk() {
	defer e.markSettled()
	w := e.newWalk()
	for e.waiting > 0 {
		j := e.nextCandidate(w)
		if j == nil {
			return
		}
		if !j.account.allows(j, j.GPUs()) {
			continue
		}
		started, placed := e.tryStart(j, w)
		if started || w.victims && e.makeRoom(j, w) {
			continue
		}
		if !e.continueAfter(j, w, placed) {
			return
		}
	}
}

func (e *Engine) newWalk() *walk {
	e.walks++
	e.blocked, e.measured = e.blocked[:0], false
	return &walk{filter: matchAll, victims: e.preempts}
}

// nextCandidate is the first job that has not been tried and is worth it.
func (e *Engine) nextCandidate(w *walk) *Job {
	watched := e.preempts && len(e.blocked) < maxBlocked // the first of each shape is wanted, whatever it needs
	if !w.victims && !w.reserving && (e.fill && !watched || w.reservations != nil) {
		w.filter.maxGPUs = e.free.Whole("")
	}
	for _, g := range e.groups {
		for {
			found := g.waiting.root.first(g.reached(e.walks), &w.filter)
			if found == nil {
				break
			}
			g.passed, g.walked = found.key, e.walks
			if found.job.shape.failedWalk != e.walks {
				return found.job
			}
		}
	}
	return nil
}

// reached is the last job of a group that a walk has seen, or nil.
func (g *group) reached(walk uint64) *key {
	if g.walked != walk {
		return nil
	}
	return &g.passed
}

// tryStart starts a job if it fits; placed says that there would have been a place for it.
func (e *Engine) tryStart(j *Job, w *walk) (started, placed bool) {
	if w.reserving && e.maxRuntime(w, j) <= 0 {
		return false, true
	}
	on, speed := e.place(j, j.GPUs())
	if on == nil {
		return false, false
	}
	if w.reservations != nil && e.occupancy(j, on, speed) > e.maxRuntime(w, j) {
		return false, true
	}
	e.launch(j, on, speed)
	if w.reservations != nil && !w.reserving {
		w.limitTimes(e)
	}
	return true, true
}

// place finds GPUs for a job, or nil, and says how fast it will be on them.
func (e *Engine) place(j *Job, n int) (cluster.Placement, float64) {
	if j.facts.Share == wholeGPU && n > e.free.WholeFor(j) || !j.account.allows(j, n) {
		return nil, 0
	}
	type answer struct {
		on cluster.Placement
		ok bool
	}
	a := callPolicy(e, "place", func() (a answer) {
		a.on, a.ok = e.policies.Place.Place(e, j, n)
		return a
	})
	if !a.ok {
		return nil, 0
	}
	return e.checkFit(j, a.on, n, "place")
}

// checkFit is a policy's placement and the job's speed on it, or nothing where that makes no sense.
func (e *Engine) checkFit(j *Job, on cluster.Placement, n int, policy string) (cluster.Placement, float64) {
	on, err := e.checkPlacement(j, on, n)
	if err != nil {
		e.reportPolicy(policy, err)
		return nil, 0
	}
	speed := e.speed(j, on)
	if speed == 0 {
		return nil, 0
	}
	return on, speed
}

// continueAfter decides what happens after a job was not started.
func (e *Engine) continueAfter(j *Job, w *walk, placed bool) bool {
	if w.reservations == nil {
		e.recordBlocked(j)
		if !e.fill {
			return e.openBackfill(j, w)
		}
	}
	if w.reserving {
		e.enterReservation(j, w)
		return true
	}
	if !placed {
		e.skipShape(j, w)
	}
	w.tried++
	return e.policies.Depth == 0 || w.tried < e.policies.Depth
}

// skipShape keeps the walk from trying others like a job.
func (e *Engine) skipShape(j *Job, w *walk) {
	j.shape.failedWalk = e.walks
	if j.shape.bit != common {
		w.filter.skip |= j.shape.bit
	}
}

// maxBlocked is how many jobs that found no place the engine watches.
const maxBlocked = 64

func (e *Engine) recordBlocked(j *Job) {
	if len(e.blocked) < maxBlocked {
		e.blocked = append(e.blocked, blockedJob{Job: j})
	}
}

// openBackfill lets jobs go before the first one that does not fit, as far as a Backfiller allows.
func (e *Engine) openBackfill(first *Job, w *walk) bool {
	if e.policies.Backfill == nil {
		return false
	}
	e.free.extendOverdue(e.now)
	w.reservations = callPolicy(e, "backfill", func() Reservations { return e.policies.Backfill.Open(e) })
	w.victims = false
	if w.reservations == nil {
		return false
	}
	e.enterReservation(first, w)
	return true
}

// enterReservation enters a job that cannot start. Once nobody else is promised anything, the queue need not
// be walked job by job.
func (e *Engine) enterReservation(j *Job, w *walk) {
	w.reserving = callPolicy(e, "backfill", func() bool { return w.reservations.Reserve(j) })
	if !w.reserving {
		w.limitTimes(e)
	}
}

// limitTimes leaves out whoever would take too long.
func (w *walk) limitTimes(e *Engine) {
	e.limitTimes(&w.filter, func(j *Job) time.Duration { return e.maxRuntime(w, j) })
}

// maxRuntime is how long a job may run if it starts now.
func (e *Engine) maxRuntime(w *walk, j *Job) time.Duration {
	return callPolicy(e, "backfill", func() time.Duration { return w.reservations.MaxRuntime(j) })
}

// limitTimes keeps a wish to jobs that take no longer than they may; longest says that, once for all
// that want the same GPUs.
func (e *Engine) limitTimes(w *filter, longest func(*Job) time.Duration) {
	w.limited = true
	for i := range w.maxTimes {
		w.maxTimes[i] = -1
	}
	free := e.free.Whole("")
	for _, l := range e.classes {
		l.maxRuntime = -1
		if l.queued == 0 || l.probe.minFree() > free {
			continue
		}
		if may := longest(l.probe); may > 0 {
			l.maxRuntime = may
		}
		size := sizeClass(l.probe.minFree())
		w.maxTimes[size] = max(w.maxTimes[size], l.maxRuntime)
	}
}

// occupancy is how long a job would have GPUs if it started now, until its estimated end.
func (e *Engine) occupancy(j *Job, on cluster.Placement, speed float64) time.Duration {
	span := Span(j.timeLeft(), speed)
	if span >= math.MaxInt64/4 {
		return span
	}
	load := e.cost(func(c Costs) time.Duration { return c.Load(j, on) })
	return max(e.readyAt(on), j.savedAt) - e.now + load + span
}
