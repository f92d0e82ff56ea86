package scheduler

import (
	"math"
	"time"

	"github.com/phos-gpu/phos/scheduler/ranked"
)

// crossings are when the ranks of running jobs will have grown past those of blocked jobs, so that
// an engine knows when to walk again although no event happens.
type crossings struct{ *Engine }

// next returns when ranks will have grown so far that a blocked job may find a place. It is never
// too late; with many blocked jobs it may be slightly too early.
func (e crossings) next() (at time.Duration, ok bool) {
	// A job that was refused although GPUs suffice may succeed as soon as one more job is behind it.
	one := !e.exhausted || e.anyRoom()
	for i := range e.blocked {
		b := &e.blocked[i]
		if b.phase != Waiting {
			continue
		}
		if one {
			b.shortfall = 0
		}
		if t, will := e.of(b); will && (!ok || t < at) {
			at, ok = t, true
		}
	}
	return at, ok
}

// of returns when the GPUs that a waiting job is short of, or those of one more job if it is short
// of none, may be held behind it. If several series grow, at least one of them must contribute its
// part by then.
func (e crossings) of(b *blockedJob) (at time.Duration, ok bool) {
	j, growing := b.Job, 0
	for _, s := range j.group.series {
		if s.growth > 0 && s.jobs.Size > 0 {
			growing++
		}
	}
	for _, s := range j.group.series {
		if s.growth <= 0 || s.jobs.Size == 0 {
			continue
		}
		var next *ranked.Leaf[*Job]
		if b.shortfall > 0 {
			next = s.jobs.LastHolding(e.behindIn(s, b) + (b.shortfall+growing-1)/growing)
		} else {
			next = s.jobs.Last(func(v *Job) bool { return !v.rankAt(e.now).isBehind(j, &e.policies) })
		}
		if next == nil || next.Tier != j.rank.Tier {
			continue
		}
		if t, will := s.crossesAt(next, j, e.now, e.policies.Quantum > 0); will && (!ok || t < at) {
			at, ok = t, true
		}
	}
	return at, ok
}

// behindIn returns how many GPUs the jobs of one series have that rank behind a blocked job.
func (e crossings) behindIn(s *series, b *blockedJob) int {
	if len(b.group.series) == 1 {
		return b.behind
	}
	return s.heldBehind(b.Job, e.seconds)
}

// crossesAt returns when a job of the series will rank behind a waiting one; if equal ranks suffice
// (turns), when they are equal.
func (s *series) crossesAt(v *ranked.Leaf[*Job], j *Job, now time.Duration, turns bool) (time.Duration, bool) {
	seconds := (j.rank.Value - v.Value) / s.growth
	if !(seconds < math.MaxInt64/2e9) {
		return 0, false
	}
	at := time.Duration(math.Ceil(seconds * 1e9))
	if turns {
		return max(now+1, at), true
	}
	return max(now, at) + 1, true
}
