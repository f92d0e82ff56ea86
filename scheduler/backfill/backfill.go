package backfill

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/phos-gpu/phos/cluster"
	"github.com/phos-gpu/phos/scheduler"
)

// Names returns the names that ByName knows.
func Names() []string { return []string{"none", "easy", "conservative"} }

// ByName returns a Backfiller, which belongs to one engine; nil for none. "conservative:N" makes
// reservations for the first N waiting jobs only.
func ByName(name string) (scheduler.Backfiller, error) {
	kind, depth, bounded := strings.Cut(name, ":")
	switch {
	case name == "none":
		return nil, nil
	case name == "easy":
		return EASY(), nil
	case name == "conservative":
		return Conservative(0), nil
	case kind == "conservative" && bounded:
		n, err := strconv.Atoi(depth)
		if err != nil || n < 1 {
			return nil, fmt.Errorf("backfill %q: %q is not a number of jobs of at least 1", name, depth)
		}
		return Conservative(n), nil
	}
	return nil, fmt.Errorf("unknown backfill %q; want one of %s", name, strings.Join(Names(), ", "))
}

// Backfiller makes reservations for the first waiting jobs. It belongs to one engine. It keeps
// reservations from one walk to the next as long as everything happens as expected; after a
// deviation it makes all of them again in the jobs' order, and some may then be later than before.
//
// If the engine's reservations are exact (scheduler.Engine.ReservationsExact), those behind the
// last job that could start now are deferred: most deviations would discard them before they have
// an effect. Made later, they are the same.
type Backfiller struct {
	depth int // 0 means all jobs

	engine     *scheduler.Engine // nil if reservations cannot be deferred
	free       *scheduler.Free
	deviations int
	// a job could have started, but its Placer refused the GPUs: reservations are not exact then
	refused      bool
	now          time.Duration
	reservations []reservation  // in the jobs' order
	next         int            // index of the first one that this walk has not reached
	startable    int            // number of the others that begin now: their jobs can start in any case
	candidate    *scheduler.Job // a job behind the last reservation that could start now, given the reservations so far
	profiles     []*profile
	spare        []*profile // unused profiles whose memory is reused
}

// reservation is a number of GPUs for a job over a time.
type reservation struct {
	job      *scheduler.Job
	gpus     int
	from, to time.Duration
}

// EASY returns a Backfiller that makes a reservation for the first blocked job only.
func EASY() *Backfiller { return Conservative(1) }

// Conservative returns a Backfiller that makes depth reservations; 0 means one for every waiting
// job.
func Conservative(depth int) *Backfiller { return &Backfiller{depth: depth} }

// Open begins a walk.
func (r *Backfiller) Open(v scheduler.View) scheduler.Reservations {
	if f := v.Free(); f != r.free || f.Deviations() != r.deviations || slices.ContainsFunc(r.reservations, broken) {
		r.free, r.deviations = f, f.Deviations()
		r.reservations = r.reservations[:0]
		r.profiles, r.spare = r.profiles[:0], append(r.spare, r.profiles...)
	}
	r.now, r.next, r.startable, r.candidate, r.engine = v.Now(), 0, 0, nil, nil
	if e, ok := v.(*scheduler.Engine); ok && !r.refused && e.ReservationsExact() {
		r.engine = e
	}
	for _, p := range r.reservations {
		if p.from <= r.now {
			r.startable++
		}
	}
	for _, p := range r.profiles {
		p.reserved.expire(r.now)
		if r.engine == nil {
			p.resetBounds()
		}
	}
	return r
}

// broken reports whether a reservation's job started at another time, or no longer waits or runs.
// Other reservations may be wrong then.
func broken(p reservation) bool {
	phase := p.job.Phase()
	return phase != scheduler.Waiting && (phase != scheduler.Running || p.job.Since() != p.from)
}

// removeStarted removes fulfilled reservations: the GPUs of their jobs are part of what is
// allocated now.
func (r *Backfiller) removeStarted() {
	for r.next < len(r.reservations) && r.reservations[r.next].job.Phase() != scheduler.Waiting {
		r.cancel(r.reservations[r.next])
		r.reservations = slices.Delete(r.reservations, r.next, r.next+1)
	}
}

// cancel removes a reservation that the walk has not reached from the profiles.
func (r *Backfiller) cancel(p reservation) {
	r.update(p, -1)
	if r.engine == nil || p.job.Phase() == scheduler.Waiting {
		for _, other := range r.profiles {
			other.resetBounds()
		}
	}
	if p.from <= r.now {
		r.startable--
	}
}

// Reserve adds a reservation for a job that cannot start now.
func (r *Backfiller) Reserve(j *scheduler.Job) (more bool) {
	r.removeStarted()
	if !r.nextIsFor(j) {
		r.cancelRest()
		r.reserveLast(j)
		if p := r.reservations[r.next]; p.from <= r.now && p.gpus <= r.free.WholeFor(j) {
			r.refused, r.engine = true, nil
		}
	}
	r.next++
	return (r.depth == 0 || r.next < r.depth) && (r.engine == nil || r.startable > 0 || r.hasCandidate(j))
}

// reserveLast adds a reservation behind all others.
func (r *Backfiller) reserveLast(j *scheduler.Job) {
	p := reservation{job: j, gpus: wholeGPUs(j)}
	p.from, p.to = r.earliest(j, p.gpus, j.ExpectedRuntime(r.now))
	r.update(p, +1)
	r.reservations = append(r.reservations, p)
}

// hasCandidate reports whether a job behind another could start now. Each reservation before it can
// only reduce what it may do. So a candidate is kept until the walk reaches it or it can no longer
// start.
func (r *Backfiller) hasCandidate(behind *scheduler.Job) bool {
	j := r.candidate
	if j == nil || j == behind || j.Phase() != scheduler.Waiting || !r.fits(j) {
		r.candidate = r.engine.NextBackfill(behind, r.runtimeLimit)
	}
	return r.candidate != nil
}

// fits reports whether a job could start now, given the reservations so far.
func (r *Backfiller) fits(j *scheduler.Job) bool {
	limit := r.runtimeLimit(j)
	return limit > 0 && j.Remaining(r.now) <= limit
}

// nextIsFor reports whether the next reservation is the job's and still in the future.
func (r *Backfiller) nextIsFor(j *scheduler.Job) bool {
	if r.next == len(r.reservations) {
		return false
	}
	p := &r.reservations[r.next]
	return p.job == j && p.from > r.now
}

// ReservedFor returns when a waiting job's reservation begins, as of the last walk; Forever if its
// GPUs are never expected to be free.
func (r *Backfiller) ReservedFor(j *scheduler.Job) (at time.Duration, ok bool) {
	r.completeUpTo(j)
	i := slices.IndexFunc(r.reservations, func(p reservation) bool { return p.job == j })
	if i < 0 {
		return 0, false
	}
	return r.reservations[i].from, true
}

// completeUpTo makes the deferred reservations up to a job's, unless they could differ by now.
func (r *Backfiller) completeUpTo(last *scheduler.Job) {
	if r.engine == nil || r.engine.Free().Deviations() != r.deviations {
		return
	}
	waiting := 0
	for j := range r.engine.Waiting() {
		waiting++
		if waiting > r.depth && r.depth > 0 {
			return
		}
		if !slices.ContainsFunc(r.reservations, func(p reservation) bool { return p.job == j }) {
			r.reserveLast(j)
		}
		if j == last {
			return
		}
	}
}

// cancelRest removes all reservations that the walk has not reached.
func (r *Backfiller) cancelRest() {
	for _, p := range r.reservations[r.next:] {
		r.cancel(p)
	}
	r.reservations = r.reservations[:r.next]
}

// MaxRuntime returns how long a job may run if it starts now.
func (r *Backfiller) MaxRuntime(j *scheduler.Job) time.Duration {
	r.removeStarted()
	if r.next < len(r.reservations) && r.reservations[r.next].job == j {
		if r.reservations[r.next].from > r.now {
			return 0
		}
		return scheduler.Forever
	}
	return r.runtimeLimit(j)
}

// runtimeLimit returns how long a job without a reservation may run.
func (r *Backfiller) runtimeLimit(j *scheduler.Job) time.Duration {
	longest := scheduler.Forever
	gpus := wholeGPUs(j)
	for _, p := range r.affectedProfiles(j) {
		longest = min(longest, p.runtimeLimit(r.now, gpus))
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

// earliest returns the first time from which a job can have its GPUs for so long.
func (r *Backfiller) earliest(j *scheduler.Job, gpus int, long time.Duration) (from, to time.Duration) {
	profiles := r.affectedProfiles(j)
	known := profiles[0].bounds[gpus]
	from = max(r.now, known.earliest(long))
	for settled := false; !settled; {
		settled = true
		for _, p := range profiles {
			at := p.earliest(from, gpus, long)
			settled = settled && at == from
			from = at
		}
	}
	profiles[0].bounds[gpus] = known.add(bound{long, from})
	return from, from + min(long, scheduler.Forever-from)
}
