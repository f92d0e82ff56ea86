package scheduler

import (
	"math"
	"slices"
	"time"

	"github.com/phos-gpu/phos/scheduler/cluster"
	"github.com/phos-gpu/phos/scheduler/ranked"
)

// Where more jobs want GPUs than there are, orders whose ranks grow let jobs take turns: nearly all
// that happens is that a run's quantum ends, and that the first waiting job of its size gets all of
// its GPUs. If nothing is free and every waiting job was tried, no other job can start then. So the
// queue need not be walked through, with the same result.

// turns is what an engine knows while jobs take turns.
type turns struct {
	possible bool // by the policies
	// active is set if nothing is free, every waiting job was tried, and the blocked jobs are the
	// first ones of each shape.
	active bool
	// crossing is when ranks have grown so far that a blocked job may find a place, if grows is set;
	// until is before that by the error with which ranks are computed.
	crossing, until time.Duration
	grows           bool
}

// turnTaking decides for an engine whose jobs take turns.
type turnTaking struct{ *Engine }

// LastFirst is a Preemptor that takes the first candidates that have enough GPUs.
type LastFirst interface {
	Preemptor
	LastFirst()
}

// Greedy is a Placer that finds a place wherever a job can run, however bad it is.
type Greedy interface {
	Placer
	Greedy()
}

// turnsPossible reports whether the policies let the result of a walk be foreseen if nothing is
// free.
func turnsPossible(e *Engine) bool {
	p := &e.policies
	_, lastFirst := p.Preempt.(LastFirst)
	_, greedy := p.Place.(Greedy)
	return lastFirst && greedy && e.preempts && e.fill && e.grouper == nil && len(p.Caps) == 0 && p.Quantum > 0 &&
		p.Round == 0 && p.Depth == 0 && p.Allocate == nil && p.Backfill == nil && p.Costs == nil && p.Speeds == nil
}

// expectTurns notes, after a walk, whether jobs will take turns until the next event.
func (e turnTaking) expectTurns() {
	e.turns.active = e.turns.possible && e.exhausted && e.waiting > 0 && e.free.Whole("") == 0 &&
		len(e.free.classes) == 1 && len(e.groups) == 1 && len(e.groups[0].series) < 2 && !e.anyRoom()
	for i := 0; i < len(e.blocked) && e.turns.active; i++ {
		b := &e.blocked[i]
		e.turns.active = b.phase == Waiting && b.facts.Share == wholeGPU && b.shape.bit != common
	}
	if e.turns.active {
		e.foreseeCrossing()
	}
}

// foreseeCrossing computes until when ranks that grow change nothing. A blocked job may find a
// place when the last preemptible jobs that together have as many GPUs rank behind it.
func (e turnTaking) foreseeCrossing() {
	e.turns.grows = false
	for i := range e.blocked {
		b := &e.blocked[i]
		if !b.foreseen {
			b.foreseen = true
			b.crossing, b.crosses = e.crossingOf(b)
		}
		if b.crosses && (!e.turns.grows || b.crossing < e.turns.crossing) {
			e.turns.crossing, e.turns.grows = b.crossing, true
		}
	}
	if !e.turns.grows {
		return
	}
	growth, largest := e.groups[0].series[0].growth, 0.0
	for i := range e.blocked {
		largest = max(largest, math.Abs(e.blocked[i].key.Value))
	}
	slack := precision * (largest/growth + e.turns.crossing.Seconds())
	e.turns.until = e.turns.crossing - time.Duration(slack*1e9) - 2
}

// crossingOf returns when a blocked job may find a place.
func (e turnTaking) crossingOf(b *blockedJob) (at time.Duration, ok bool) {
	all := e.groups[0].series
	if len(all) == 0 || all[0].growth <= 0 {
		return 0, false
	}
	last := all[0].jobs.LastHolding(b.shape.need.MinGPUs)
	if last == nil || last.Tier != b.key.Tier {
		return 0, false
	}
	return all[0].crossesAt(last, b.rank(), e.now, true)
}

// takeTurn decides what a walk would decide now, and reports whether it could foresee that.
func (e turnTaking) takeTurn() bool {
	if at, any := e.rerankTimers.Next(); any && at <= e.now || e.turns.grows && e.turns.until <= e.now {
		return false
	}
	due, ok := e.preemptTimers.PopDue(e.now)
	if !ok {
		return true
	}
	if next, any := e.preemptTimers.Next(); (!any || next > e.now) && e.passOn(due.Subject) {
		return true
	}
	for ; ok; due, ok = e.preemptTimers.PopDue(e.now) {
		due.Subject.preemptible = true
		e.enqueue(due.Subject)
	}
	return e.passOnAll()
}

// passOn gives the GPUs of a running job, the only one whose quantum ends now, to a blocked job,
// and reports whether it could. The running job is not in its series yet, and need not get there.
func (e turnTaking) passOn(v *Job) bool {
	at, what := e.successor(v, len(v.placement))
	if what != gives || !e.isNext(v, at) {
		return false
	}
	e.victims = append(e.victims[:0], v)
	e.exchange(at)
	return true
}

// isNext reports whether a walk would find v before all jobs of its series, or v alone behind a
// blocked job. If ranks are equal but for rounding, it may not.
func (e turnTaking) isNext(v *Job, at int) bool {
	b := &e.blocked[at]
	slack := precision * (math.Abs(b.key.Value) + v.rank.Growth*e.seconds)
	return len(v.placement) == 1 || v.rankAt(e.now).Value > b.key.Value+slack || e.heldBehind(e.groups[0], b.rank()) == 0
}

// passOnAll gives the GPUs of preemptible jobs to blocked ones until no more can be preempted, and
// reports whether it could foresee all of that.
func (e turnTaking) passOnAll() bool {
	s := e.groups[0].series[0]
	for len(e.groups[0].series) < 2 {
		last := s.jobs.LastBefore(nil)
		if last == nil {
			break
		}
		at, what := e.successor(last.Job, 0)
		if what == keeps {
			break
		}
		if what == unclear || !e.gather(&e.blocked[at]) {
			return false
		}
		e.exchange(at)
	}
	return !e.anyRoom() && e.foreseeAll()
}

// foreseeAll computes again what depends on which running jobs are preemptible, and reports whether
// jobs still take turns.
func (e turnTaking) foreseeAll() bool {
	for i := range e.blocked {
		e.blocked[i].foreseen = false
	}
	e.foreseeCrossing()
	return len(e.groups[0].series) < 2
}

// turn is what becomes of the GPUs of a running job that may be preempted.
type turn uint8

const (
	keeps   turn = iota // it keeps them
	gives               // a blocked job needs just these
	shares              // a blocked job needs them and those of others
	unclear             // a walk must decide
)

// successor returns which blocked job gets the GPUs of a running one that is preempted first. More
// is how many GPUs it has, unless its series counts them.
func (e turnTaking) successor(v *Job, more int) (at int, what turn) {
	has, rank, most := len(v.placement), v.rankAt(e.now), more
	for _, s := range e.groups[0].series {
		most += s.jobs.Held()
	}
	for i := range e.blocked {
		b := &e.blocked[i]
		if !rank.isBehind(b.rank(), &e.policies) {
			return -1, keeps
		}
		switch needs := b.shape.need.MinGPUs; {
		case !b.shape.fits || has > needs:
			return -1, unclear
		case has == needs && e.canGive(v):
			return i, gives
		case has == needs:
			return -1, unclear
		case most >= needs && e.heldBehind(e.groups[0], b.rank())+more >= needs:
			return i, shares
		}
	}
	return -1, keeps
}

// canGive reports whether another job can run on all GPUs of v, which itself can be told apart by
// its shape while it waits.
func (e turnTaking) canGive(v *Job) bool {
	return v.facts.Share == wholeGPU && v.shape.bit != common && e.free.allUsable(v.placement)
}

// gather chooses the jobs that a walk would preempt for a blocked one, and reports whether they
// have just the GPUs that it needs.
func (e turnTaking) gather(b *blockedJob) bool {
	jobs, needs, held := &e.groups[0].series[0].jobs, b.shape.need.MinGPUs, 0
	e.victims = e.victims[:0]
	for v := jobs.LastBefore(nil); held < needs; v = jobs.LastBefore(&v.Key) {
		if v == nil || !e.canGive(v.Job) || !v.Job.rankAt(e.now).isBehind(b.rank(), &e.policies) {
			return false
		}
		e.victims = append(e.victims, v.Job)
		held += len(v.Job.placement)
	}
	for i := 0; i < len(e.victims)-1; { // as spareVictims
		if has := len(e.victims[i].placement); held-has >= needs {
			held -= has
			e.victims = slices.Delete(e.victims, i, i+1)
		} else {
			i++
		}
	}
	return held == needs
}

// exchange gives the GPUs of the victims to a blocked job, the first waiting one of its shape.
func (e turnTaking) exchange(at int) {
	j, key, on := e.blocked[at].Job, e.blocked[at].key, e.victims[0].placement
	e.observePreemptions(e.victims, j)
	if len(e.victims) > 1 {
		on = union(e.victims)
	}
	for _, v := range e.victims {
		v.gpusReleased = true
		e.stop(v)
	}
	e.launch(j, on, float64(len(on))/float64(j.facts.GPUs))
	e.replaceBlocked(at)
	for _, v := range e.victims {
		if v.shape != j.shape || v.inQueue.Before(&key) { // as if it was submitted before j
			e.insertBlocked(newBlocked(v, v.inQueue.Key, v.shape))
		}
	}
	e.foreseeCrossing()
}

// union returns the GPUs of all jobs.
func union(jobs []*Job) (on cluster.Placement) {
	for _, j := range jobs {
		on = append(on, j.placement...)
	}
	slices.SortFunc(on, byNumber)
	return on
}

// replaceBlocked puts the next waiting job of a shape in the place of a blocked one that has
// started.
func (e turnTaking) replaceBlocked(at int) {
	started, other := &e.blocked[at], ranked.MatchAll
	other.Skip = ^started.shape.bit
	next, ok := e.groups[0].waiting.First(&started.key, &other)
	if !ok {
		e.blocked = slices.Delete(e.blocked, at, at+1)
		return
	}
	*started = newBlocked(next.Job, next.Key, started.shape)
	for ; at+1 < len(e.blocked) && e.blocked[at+1].key.Before(&e.blocked[at].key); at++ {
		e.blocked[at], e.blocked[at+1] = e.blocked[at+1], e.blocked[at]
	}
}

// insertBlocked adds a waiting job to the blocked ones by rank, unless one of its shape is before
// it. One of its shape behind it is replaced.
func (e turnTaking) insertBlocked(b blockedJob) {
	at := len(e.blocked)
	for i := len(e.blocked) - 1; i >= 0; i-- {
		same := e.blocked[i].shape == b.shape
		if e.blocked[i].key.Before(&b.key) {
			if same {
				return
			}
			continue
		}
		at = i
		if same {
			e.blocked = slices.Delete(e.blocked, i, i+1)
		}
	}
	e.blocked = slices.Insert(e.blocked, at, b)
}
