package backfill

import (
	"maps"
	"time"

	"github.com/phos-gpu/phos/scheduler"
	"github.com/phos-gpu/phos/scheduler/cluster"
)

// reservation is a number of GPUs for a job over a time.
type reservation struct {
	job      *scheduler.Job
	gpus     int
	from, to time.Duration
}

// book is the reservations of waiting jobs. Each set of GPUs that jobs can run on has a profile of
// what is reserved of it.
type book struct {
	free         *scheduler.Free
	now          time.Duration
	round        time.Duration // starts are at its multiples; 0: at any time
	reservations map[*scheduler.Job]reservation
	profiles     []*profile
	spare        []*profile // unused profiles whose memory is reused
}

// roundOf returns the time between an engine's decisions; 0 if it decides at every event.
func roundOf(v scheduler.View) time.Duration {
	if e, ok := v.(interface{ Round() time.Duration }); ok {
		return e.Round()
	}
	return 0
}

// decision returns the first time, not before at, at which an engine with such rounds decides.
func decision(at, round time.Duration) time.Duration {
	if round == 0 || at > scheduler.Forever-round {
		return at
	}
	return (at + round - 1) / round * round
}

// clear removes all reservations.
func (b *book) clear(free *scheduler.Free) {
	if b.reservations == nil {
		b.reservations = map[*scheduler.Job]reservation{}
	}
	b.free = free
	clear(b.reservations)
	b.profiles, b.spare = b.profiles[:0], append(b.spare, b.profiles...)
}

// reserve adds a reservation for a job at the earliest time that delays no other one.
func (b *book) reserve(j *scheduler.Job) {
	r := reservation{job: j, gpus: wholeGPUs(j)}
	r.from, r.to = b.earliest(j, r.gpus, j.ExpectedRuntime(b.now))
	b.add(r)
}

// add adds a reservation.
func (b *book) add(r reservation) {
	b.update(r, +1)
	b.reservations[r.job] = r
}

// remove removes a reservation.
func (b *book) remove(r reservation) {
	b.update(r, -1)
	delete(b.reservations, r.job)
}

// update changes the profiles by a reservation: adds it (sign > 0), or removes it.
func (b *book) update(r reservation, sign int) {
	b.profile(r.job)
	for _, p := range b.profiles {
		if p.sample == r.job || b.free.Overlap(p.sample, r.job) {
			p.add(r.from, r.to, sign*r.gpus)
		}
	}
}

// profile returns the profile of the jobs that can run on the same GPUs as j.
func (b *book) profile(j *scheduler.Job) *profile {
	for _, p := range b.profiles {
		if b.free.SameGPUs(p.sample, j) {
			return p
		}
	}
	p := b.newProfile(j)
	for r := range maps.Values(b.reservations) {
		if b.free.Overlap(r.job, j) {
			p.add(r.from, r.to, r.gpus)
		}
	}
	b.profiles = append(b.profiles, p)
	return p
}

// newProfile returns a profile without reservations, in reused memory if possible.
func (b *book) newProfile(like *scheduler.Job) *profile {
	p := &profile{bounds: map[int]bounds{}}
	if last := len(b.spare) - 1; last >= 0 {
		p, b.spare = b.spare[last], b.spare[:last]
	}
	if p.free != b.free || p.sample.GPUType() != like.GPUType() || p.sample.GPUMemoryBytes() != like.GPUMemoryBytes() {
		clear(p.times)
	}
	p.free, p.sample = b.free, like
	p.reserved.reset()
	p.resetBounds()
	return p
}

// affectedProfiles returns the profiles that limit a job: its own, and those of reserved jobs that
// can run on some of its GPUs. The job counts as if it took all of its GPUs from each.
func (b *book) affectedProfiles(j *scheduler.Job) []*profile {
	own := b.profile(j)
	touched := []*profile{own}
	for _, p := range b.profiles {
		if p != own && p.reserved.root != 0 && b.free.Overlap(p.sample, j) {
			touched = append(touched, p)
		}
	}
	return touched
}

// resetBounds discards lower bounds that may be too high by now.
func (b *book) resetBounds() {
	for _, p := range b.profiles {
		p.resetBounds()
	}
}

// earliest returns the first time from which a job can have its GPUs for so long. The search begins
// at a lower bound that earlier searches have left.
func (b *book) earliest(j *scheduler.Job, gpus int, long time.Duration) (from, to time.Duration) {
	own := b.profile(j)
	known := own.bounds[gpus]
	from = b.earliestBetween(max(b.now, known.earliest(long)), scheduler.Forever, j, gpus, long)
	own.bounds[gpus] = known.add(bound{long, from})
	return from, end(from, long)
}

// end returns when a run of a length ends; Forever at most.
func end(from, long time.Duration) time.Duration { return from + min(long, scheduler.Forever-from) }

// earliestBetween returns the first time, not before at, at which the engine decides and from which
// a job can have its GPUs for so long; a time that is not before limit if there is none before it.
func (b *book) earliestBetween(
	at, limit time.Duration,
	j *scheduler.Job,
	gpus int,
	long time.Duration,
) time.Duration {
	profiles := b.affectedProfiles(j)
	for fits := false; !fits && at < limit; {
		fits = true
		for _, p := range profiles {
			from := p.earliest(at, limit, gpus, long)
			fits = fits && at == from
			at = from
		}
		if start := decision(at, b.round); start != at {
			fits, at = false, start
		}
	}
	return at
}

// freeBefore reports whether a job's GPUs are free just before a time.
func (b *book) freeBefore(at time.Duration, j *scheduler.Job, gpus int) bool {
	for _, p := range b.affectedProfiles(j) {
		if p.firstFree(at-1, gpus) >= at {
			return false
		}
	}
	return true
}

// runtimeLimit returns how long a job without a reservation may run from now on.
func (b *book) runtimeLimit(j *scheduler.Job) time.Duration {
	longest := scheduler.Forever
	gpus := wholeGPUs(j)
	for _, p := range b.affectedProfiles(j) {
		longest = min(longest, p.runtimeLimit(b.now, gpus))
	}
	return longest
}

// wholeGPUs returns how many GPUs a job makes unusable as whole ones.
func wholeGPUs(j *scheduler.Job) int {
	if j.Share() < cluster.WholeGPU {
		return 1
	}
	return j.GPUs()
}
