package backfill

import (
	"slices"
	"time"

	"github.com/phos-gpu/phos/scheduler"
)

// profile is how many of the GPUs that certain jobs can run on are promised, over time. What else is expected of them, Free knows.
type profile struct {
	free  *scheduler.Free
	like  *scheduler.Job // one of those jobs
	steps []step         // sorted; before the first, nothing is promised

	// When so many GPUs are expected to be free, as asked before; valid until Free changes.
	times   []time.Duration
	changes uint64
}

// step is a time from which on so many GPUs are promised.
type step struct {
	at   time.Duration
	gpus int
}

// profile finds the one of the jobs that can run on the same GPUs as a job.
func (r *Reservations) profile(j *scheduler.Job) *profile {
	for _, p := range r.profiles {
		if p.like.GPUType() == j.GPUType() && p.like.GPUMemoryBytes() == j.GPUMemoryBytes() {
			return p
		}
	}
	p := &profile{free: r.free, like: j}
	for _, promised := range r.promises {
		if r.free.Overlap(promised.job, j) {
			p.add(promised.from, promised.to, promised.gpus)
		}
	}
	r.profiles = append(r.profiles, p)
	return p
}

// touched are the profiles that a job must leave enough in: its own, and of those jobs with a promise that can run on some of its GPUs.
// It counts as if it took all of its GPUs from each.
func (r *Reservations) touched(j *scheduler.Job) []*profile {
	own := r.profile(j)
	touched := []*profile{own}
	for _, p := range r.profiles {
		if p != own && len(p.steps) > 0 && r.free.Overlap(p.like, j) {
			touched = append(touched, p)
		}
	}
	return touched
}

// enter makes a promise count, or takes it out.
func (r *Reservations) enter(p promise, sign int) {
	r.profile(p.job)
	for _, other := range r.profiles {
		if other.like == p.job || r.free.Overlap(other.like, p.job) {
			other.add(p.from, p.to, sign*p.gpus)
		}
	}
}

// add promises so many GPUs more from one time to another: nothing where the first is never.
func (p *profile) add(from, to time.Duration, gpus int) {
	if from >= to {
		return
	}
	first, last := p.cut(from), p.cut(to)
	for i := first; i < last; i++ {
		p.steps[i].gpus += gpus
	}
	p.join(last)
	p.join(first)
}

// cut finds the step that begins at a time, and makes one if there is none.
func (p *profile) cut(at time.Duration) int {
	i, found := p.find(at)
	if !found {
		p.steps = slices.Insert(p.steps, i, step{at, p.level(i - 1)})
	}
	return i
}

func (p *profile) find(at time.Duration) (int, bool) {
	return slices.BinarySearchFunc(p.steps, at, func(s step, at time.Duration) int { return int(min(1, max(-1, s.at-at))) })
}

// join removes a step that changes nothing.
func (p *profile) join(i int) {
	if p.steps[i].gpus == p.level(i-1) {
		p.steps = slices.Delete(p.steps, i, i+1)
	}
}

func (p *profile) level(i int) int {
	if i < 0 {
		return 0
	}
	return p.steps[i].gpus
}

// expire forgets what lies in the past.
func (p *profile) expire(now time.Duration) {
	i, found := p.find(now)
	if !found {
		i--
	}
	if i > 0 {
		p.steps = slices.Delete(p.steps, 0, i)
	}
}

// span is from when to when the level of a step holds.
func (p *profile) span(i int) (from, to time.Duration) {
	to = scheduler.Forever
	if i >= 0 {
		from = p.steps[i].at
	}
	if i+1 < len(p.steps) {
		to = p.steps[i+1].at
	}
	return from, to
}

// earliest is the first time, not before another one, from which on so many GPUs are free for so long; Forever if there is none.
func (p *profile) earliest(at time.Duration, gpus int, long time.Duration) time.Duration {
	i, found := p.find(at)
	if !found {
		i--
	}
	for ; i < len(p.steps); i++ {
		from, to := p.span(i)
		if from > at && from-at >= long {
			break
		}
		// What is expected to be free only grows while a level holds.
		enough := p.when(gpus + p.level(i))
		switch {
		case enough <= max(from, at):
		case enough < to:
			at = enough
		case to == scheduler.Forever:
			return scheduler.Forever
		default:
			at = to
		}
	}
	return at
}

// longest is how long so many GPUs can be taken from now on.
func (p *profile) longest(now time.Duration, gpus int) time.Duration {
	i, found := p.find(now)
	if !found {
		i--
	}
	for ; i < len(p.steps); i++ {
		from, _ := p.span(i)
		if at := max(now, from); p.when(gpus+p.level(i)) > at {
			return at - now
		}
	}
	return scheduler.Forever
}

// when is from when on so many GPUs are expected to be free; Forever where they never are.
func (p *profile) when(gpus int) time.Duration {
	if changes := p.free.Changes(); changes != p.changes {
		p.changes, p.times = changes, p.times[:0]
	}
	for len(p.times) <= gpus {
		p.times = append(p.times, -1)
	}
	if p.times[gpus] < 0 {
		at, ok := p.free.When(p.like, gpus)
		if !ok {
			at = scheduler.Forever
		}
		p.times[gpus] = at
	}
	return p.times[gpus]
}
