package scheduler

import (
	"math"
	"slices"
	"time"

	"github.com/phos-gpu/phos/scheduler/ranked"
	"github.com/phos-gpu/phos/scheduler/timers"
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
	const precision = 1e-12 // as in series.heldBehind
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
		largest = max(largest, math.Abs(e.blocked[i].rank.Value))
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
	if last == nil || last.Tier != b.rank.Tier {
		return 0, false
	}
	return all[0].crossesAt(last, b.rank, e.now, true)
}

// takeTurn decides what a walk would decide now, and reports whether it could foresee that.
func (e turnTaking) takeTurn() bool {
	if at, any := e.rerankTimers.Next(); any && at <= e.now || e.turns.grows && e.turns.until <= e.now {
		return false
	}
	a, ok := e.preemptTimers.PopDue(e.now)
	if !ok {
		return true
	}
	v := a.Subject
	if next, any := e.preemptTimers.Next(); any && next <= e.now {
		return e.takeTurns(v)
	}
	at, foreseen := e.successor(v, len(v.placement))
	if at >= 0 && foreseen && (len(v.placement) == 1 || e.heldBehind(e.groups[0], e.blocked[at].rank) == 0) {
		e.exchange(v, at)
		return true
	}
	v.preemptible = true
	e.enqueue(v)
	return at < 0 && foreseen && e.foreseeAll()
}

// takeTurns is takeTurn if the quanta of several jobs are over, of which v is the first.
func (e turnTaking) takeTurns(v *Job) bool {
	for ok := true; ok; {
		v.preemptible = true
		e.enqueue(v)
		var next timers.Timer[*Job]
		next, ok = e.preemptTimers.PopDue(e.now)
		v = next.Subject
	}
	s := e.groups[0].series[0]
	for len(e.groups[0].series) < 2 {
		last := s.jobs.LastBefore(nil)
		if last == nil {
			break
		}
		at, foreseen := e.successor(last.Job, 0)
		if !foreseen {
			return false
		}
		if at < 0 {
			break
		}
		e.exchange(last.Job, at)
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

// successor returns which blocked job gets just the GPUs of a running one that is preempted first;
// a negative index if it keeps them. More is how many GPUs it has, unless the series counts them.
// foreseen is false if something else may happen.
func (e turnTaking) successor(v *Job, more int) (at int, foreseen bool) {
	has, rank := len(v.placement), v.rankAt(e.now)
	for i := range e.blocked {
		b := &e.blocked[i]
		if !rank.isBehind(b.rank, &e.policies) {
			return -1, true
		}
		if needs := b.shape.need.MinGPUs; has != needs {
			if has < needs && e.heldBehind(e.groups[0], b.rank)+more < needs {
				continue
			}
			return -1, false
		}
		return i, v.facts.Share == wholeGPU && e.free.allUsable(v.placement) && b.shape.fits
	}
	return -1, true
}

// exchange gives the GPUs of a running job to a blocked one, the first waiting one of its shape.
func (e turnTaking) exchange(v *Job, at int) {
	j := e.blocked[at].Job
	if e.observer != nil {
		e.observer.Preempts(v, j)
	}
	on := v.placement
	v.gpusReleased = true
	e.stop(v)
	e.launch(j, on, float64(len(on))/float64(j.facts.GPUs))
	e.replaceBlocked(at)
	e.insertBlocked(newBlocked(v, v.inQueue.Key, v.shape)) // it may be before j, if it was submitted earlier
	e.foreseeCrossing()
}

// replaceBlocked puts the next waiting job of a shape in the place of a blocked one that has
// started.
func (e turnTaking) replaceBlocked(at int) {
	started := e.blocked[at]
	e.blocked = slices.Delete(e.blocked, at, at+1)
	other := ranked.MatchAll
	other.Skip = ^started.shape.bit
	if next, ok := e.groups[0].waiting.First(&started.key, &other); ok {
		e.insertBlocked(newBlocked(next.Job, next.Key, started.shape))
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
