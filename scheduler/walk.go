package scheduler

import (
	"math"
	"time"

	"github.com/phos-gpu/phos/scheduler/cluster"
	"github.com/phos-gpu/phos/scheduler/ranked"
)

// walk is one pass through the queue.
type walk struct {
	filter       ranked.Filter
	reservations Reservations // set after the first job was blocked, in a strict walk with a Backfiller
	reserving    bool         // every job that cannot start gets a reservation
	passed       bool         // a job was blocked
	tried        int
	victims      bool // preemption is still possible in this walk
}

// walk gives GPUs to waiting jobs, in rank order.
func (e *Engine) walk() {
	defer e.markExhausted()
	now := e.newWalk()
	w := &now
	if promiser, ok := e.policies.Backfill.(Promiser); ok && !e.preempts && !e.fill && e.waiting > 0 {
		e.openReservations(w, promiser)
	}
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

// newWalk returns a walk that begins at the first job.
func (e *Engine) newWalk() walk {
	e.walks++
	e.blocked, e.measured = e.blocked[:0], false
	return walk{filter: ranked.MatchAll, victims: e.preempts}
}

// nextCandidate returns the first job that has not been tried and may be able to start, or nil.
func (e *Engine) nextCandidate(w *walk) *Job {
	watched := e.preempts && len(e.blocked) < maxBlocked // the first job of each shape is wanted, whatever its size
	if !w.victims && !w.reserving && (e.fill && !watched || w.reservations != nil) {
		w.filter.MaxGPUs = e.free.Whole("")
	}
	for _, g := range e.groups {
		for {
			found, ok := g.waiting.First(g.reached(e.walks), &w.filter)
			if !ok {
				break
			}
			g.passed, g.walked = found.Key, e.walks
			if found.Job.shape.failedWalk != e.walks {
				return found.Job
			}
		}
	}
	return nil
}

// reached returns the last job of a group that a walk has visited, or nil.
func (g *group) reached(walk uint64) *ranked.Key {
	if g.walked != walk {
		return nil
	}
	return &g.passed
}

// tryStart starts a job if it fits. placed reports whether the Placer found a place for it.
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
	e.free.allocate(on, j.facts.Share)
	e.launch(j, on, speed)
	e.observeStart(j)
	if w.reservations == nil {
		e.free.setBack()
	}
	if w.reservations != nil && !w.reserving {
		w.limitTimes(e)
	}
	return true, true
}

// place returns GPUs for a job and its speed on them; nil if there are none.
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

// checkFit returns a policy's placement and the job's speed on it; nil if the placement is invalid
// or the job cannot run there.
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

// continueAfter handles a job that was not started, and reports whether the walk goes on.
func (e *Engine) continueAfter(j *Job, w *walk, placed bool) bool {
	if !w.passed {
		e.recordBlocked(j)
		w.passed = !e.fill
	}
	if w.reservations == nil && !e.fill {
		return e.openBackfill(j, w)
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

// skipShape excludes jobs of the same shape from the walk.
func (e *Engine) skipShape(j *Job, w *walk) {
	j.shape.failedWalk = e.walks
	if j.shape.bit != common {
		w.filter.Skip |= j.shape.bit
	}
}

// maxBlocked is how many blocked jobs the engine tracks.
const maxBlocked = 64

// recordBlocked adds a job to the blocked ones.
func (e *Engine) recordBlocked(j *Job) {
	if len(e.blocked) < maxBlocked {
		e.blocked = append(e.blocked, newBlocked(j, j.inQueue.Key, j.shape))
	}
}

// openBackfill lets jobs overtake the first one that does not fit, if the Backfiller allows it.
func (e *Engine) openBackfill(first *Job, w *walk) bool {
	if e.policies.Backfill == nil {
		return false
	}
	e.openReservations(w, e.policies.Backfill)
	if w.reservations == nil {
		return false
	}
	e.enterReservation(first, w)
	return true
}

// openReservations lets a Backfiller decide from here on which jobs may start.
func (e *Engine) openReservations(w *walk, filler Backfiller) {
	e.free.extendOverdue(e.now)
	w.reservations = callPolicy(e, "backfill", func() Reservations { return filler.Open(e) })
	e.free.expected.earlyUntil = 0
	w.reserving, w.victims = w.reservations != nil, false
}

// enterReservation reserves GPUs for a job that cannot start. Once no more jobs get reservations,
// the queue need not be visited job by job.
func (e *Engine) enterReservation(j *Job, w *walk) {
	w.reserving = callPolicy(e, "backfill", func() bool { return w.reservations.Reserve(j) })
	e.observePromise(j)
	if !w.reserving {
		w.limitTimes(e)
	}
}

// limitTimes excludes jobs that would run too long.
func (w *walk) limitTimes(e *Engine) {
	e.limitTimes(&w.filter, func(j *Job) time.Duration {
		return callPolicy(e, "backfill", func() time.Duration { return w.reservations.ClassLimit(j) })
	})
}

// maxRuntime returns how long a job may run if it starts now.
func (e *Engine) maxRuntime(w *walk, j *Job) time.Duration {
	return callPolicy(e, "backfill", func() time.Duration { return w.reservations.MaxRuntime(j) })
}

// limitTimes limits a filter to jobs that run no longer than they may. It calls longest once for
// each equivalence class.
func (e *Engine) limitTimes(w *ranked.Filter, longest func(*Job) time.Duration) {
	w.Limited = true
	for i := range w.MaxTimes {
		w.MaxTimes[i] = -1
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
		size := ranked.SizeClass(l.probe.minFree())
		w.MaxTimes[size] = max(w.MaxTimes[size], l.maxRuntime)
	}
}

// occupancy returns how long a job would have the GPUs if it started now and its estimate is right.
func (e *Engine) occupancy(j *Job, on cluster.Placement, speed float64) time.Duration {
	span := Span(j.timeLeft(), speed)
	if span >= math.MaxInt64/4 {
		return span
	}
	load := e.cost(func(c Costs) time.Duration { return c.Load(j, on) })
	return max(e.readyAt(on), j.savedAt) - e.now + load + span
}
