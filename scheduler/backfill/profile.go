package backfill

import (
	"time"

	"github.com/phos-gpu/phos/scheduler"
)

// profile is how many of the GPUs that certain jobs can run on are promised, over time. What else
// is expected of them, Free knows.
type profile struct {
	free     *scheduler.Free
	like     *scheduler.Job // one of those jobs
	promised timeline

	// When so many GPUs are expected to be free, as asked before: each holds until Free changes.
	times []answer

	// The times that were promised, by the GPUs: no job that wants as many for as long will get one
	// before.
	known map[int]known
}

type answer struct {
	at      time.Duration
	changes uint64 // that Free had counted, and one
}

// profile finds the one of the jobs that can run on the same GPUs as a job.
func (r *Reservations) profile(j *scheduler.Job) *profile {
	for _, p := range r.profiles {
		if r.free.Same(p.like, j) {
			return p
		}
	}
	p := r.blank(j)
	for _, promised := range r.promises {
		if r.free.Overlap(promised.job, j) {
			p.add(promised.from, promised.to, promised.gpus)
		}
	}
	r.profiles = append(r.profiles, p)
	return p
}

// blank is a profile without promises, out of what an earlier one has left.
func (r *Reservations) blank(like *scheduler.Job) *profile {
	p := &profile{known: map[int]known{}}
	if last := len(r.old) - 1; last >= 0 {
		p, r.old = r.old[last], r.old[:last]
	}
	if p.free != r.free || p.like.GPUType() != like.GPUType() || p.like.GPUMemoryBytes() != like.GPUMemoryBytes() {
		clear(p.times)
	}
	p.free, p.like = r.free, like
	p.promised.clear()
	p.forget()
	return p
}

// touched are the profiles that a job must leave enough in: its own, and of those jobs with a
// promise that can run on some of its GPUs. It counts as if it took all of its GPUs from each.
func (r *Reservations) touched(j *scheduler.Job) []*profile {
	own := r.profile(j)
	touched := []*profile{own}
	for _, p := range r.profiles {
		if p != own && p.promised.root != 0 && r.free.Overlap(p.like, j) {
			touched = append(touched, p)
		}
	}
	return touched
}

// forget takes promises for made that may be made earlier by now.
func (p *profile) forget() {
	for gpus := range p.known {
		p.known[gpus] = p.known[gpus][:0]
	}
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
	if from < to {
		p.promised.add(from, to, gpus)
	}
}

// earliest is the first time, not before another one, from which on so many GPUs are free for so
// long; Forever if there is none.
func (p *profile) earliest(at time.Duration, gpus int, long time.Duration) time.Duration {
	for {
		at = p.begin(at, gpus)
		if at == scheduler.Forever {
			return at
		}
		end := p.end(at, gpus)
		if end == scheduler.Forever || end-at >= long {
			return at
		}
		at = end
	}
}

// longest is how long so many GPUs can be taken from now on.
func (p *profile) longest(now time.Duration, gpus int) time.Duration {
	if p.when(gpus+p.promised.level(p.promised.root, now)) > now {
		return 0
	}
	if end := p.end(now, gpus); end != scheduler.Forever {
		return end - now
	}
	return scheduler.Forever
}

// begin is the first time, not before another one, at which so many GPUs are free; Forever if there
// is none.
func (p *profile) begin(at time.Duration, gpus int) time.Duration {
	promised, _, until := p.promised.around(at)
	// What is expected to be free only grows while a level holds.
	if enough := p.when(gpus + promised); enough < until {
		return max(at, enough)
	}
	return p.beginBelow(p.promised.root, scope{after: at, until: scheduler.Forever, gpus: gpus})
}

// scope is what is looked for at and below a step: something after one time and before another one,
// for so many GPUs and those that the steps above add.
type scope struct {
	after, until time.Duration
	gpus         int
}

// beginBelow is when a level first holds for long enough that so many GPUs become free; Forever if
// none does.
func (p *profile) beginBelow(n int32, in scope) time.Duration {
	s := &p.promised.nodes[n]
	if n == 0 || p.when(in.gpus+s.least) >= in.until {
		return scheduler.Forever
	}
	below := scope{in.after, in.until, in.gpus + s.add}
	if s.at > in.after {
		before := below
		before.until = s.at
		if at := p.beginBelow(s.left, before); at != scheduler.Forever {
			return at
		}
		to := in.until
		if s.right != 0 {
			to = p.promised.nodes[s.right].first
		}
		if enough := p.when(in.gpus + s.gpus); enough < to {
			return max(s.at, enough)
		}
	}
	return p.beginBelow(s.right, below)
}

// end is the first time after another one at which so many GPUs are not free any more; Forever if
// they stay so.
func (p *profile) end(at time.Duration, gpus int) time.Duration {
	return p.endBelow(p.promised.root, scope{after: at, gpus: gpus})
}

func (p *profile) endBelow(n int32, in scope) time.Duration {
	s := &p.promised.nodes[n]
	if n == 0 || p.when(in.gpus+s.most) <= max(s.first, in.after) {
		return scheduler.Forever
	}
	below := scope{after: in.after, gpus: in.gpus + s.add}
	if s.at > in.after {
		if at := p.endBelow(s.left, below); at != scheduler.Forever {
			return at
		}
		if p.when(in.gpus+s.gpus) > s.at {
			return s.at
		}
	}
	return p.endBelow(s.right, below)
}

// when is from when on so many GPUs are expected to be free; Forever where they never are.
func (p *profile) when(gpus int) time.Duration {
	if gpus <= 0 { // of a step in the past
		return 0
	}
	for len(p.times) <= gpus {
		p.times = append(p.times, answer{})
	}
	a := &p.times[gpus]
	if changes := p.free.Changes() + 1; a.changes != changes {
		at, ok := p.free.When(p.like, gpus)
		if !ok {
			at = scheduler.Forever
		}
		*a = answer{at, changes}
	}
	return a.at
}
