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

// Names are those that ByName knows.
func Names() []string { return []string{"none", "easy", "conservative"} }

// ByName makes a backfiller, which belongs to one engine; nil for none. "conservative:N" promises
// times to the first N waiting jobs only.
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
	return nil, fmt.Errorf("no backfill %q: there are %s", name, strings.Join(Names(), ", "))
}

// Backfiller promises times to the first waiting jobs. It belongs to one engine, and remembers
// its promises from one walk to the next as long as everything happens as expected; after a
// surprise all are made anew, in the jobs' order, and some may then be later than before.
//
// Where the engine can foresee what becomes of promises, those behind the last job that could start
// now are put off: nobody would see them, and most surprises would make them void before anybody
// did. Made later, they are the same.
type Backfiller struct {
	depth int // 0 means everybody

	engine     *scheduler.Engine // nil where promises cannot be put off
	free       *scheduler.Free
	deviations int
	// there was a job that could have started, but its placement did not like the GPUs: no promise
	// foresees that
	refused      bool
	now          time.Duration
	reservations []reservation  // in the jobs' order
	next         int            // how many of them the walk has come by
	startable    int            // how many others are for now: their jobs can start, whatever else is promised
	candidate    *scheduler.Job // a job behind the last promise that could start now, as far as is promised yet
	profiles     []*profile
	spare        []*profile // of no use but for their memory
}

// reservation is that a job gets so many GPUs for so long.
type reservation struct {
	job      *scheduler.Job
	gpus     int
	from, to time.Duration
}

// EASY promises a time to the first job that has to wait.
func EASY() *Backfiller { return Conservative(1) }

// Conservative promises times to as many jobs; 0 means to all that wait.
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

// broken reports whether a job that was promised a time started at another one, or wants it no
// more. What others were promised may not be true any longer.
func broken(p reservation) bool {
	phase := p.job.Phase()
	return phase != scheduler.Waiting && (phase != scheduler.Running || p.job.Since() != p.from)
}

// removeStarted takes promises out that have been kept: what their jobs have of GPUs is known by now to
// whoever asks what is free.
func (r *Backfiller) removeStarted() {
	for r.next < len(r.reservations) && r.reservations[r.next].job.Phase() != scheduler.Waiting {
		r.cancel(r.reservations[r.next])
		r.reservations = slices.Delete(r.reservations, r.next, r.next+1)
	}
}

// cancel makes one of those promises count no more that the walk has not come by.
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

// Reserve enters a job that cannot start now.
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

// reserveLast promises a job a time behind all others.
func (r *Backfiller) reserveLast(j *scheduler.Job) {
	p := reservation{job: j, gpus: wholeGPUs(j)}
	p.from, p.to = r.earliest(j, p.gpus, j.ExpectedRuntime(r.now))
	r.update(p, +1)
	r.reservations = append(r.reservations, p)
}

// hasCandidate reports whether there is a job behind another that could start now. Every promise before it
// can only make that worse: so a job that has been found is looked at until the walk has come to it
// or it has no hope any more.
func (r *Backfiller) hasCandidate(behind *scheduler.Job) bool {
	j := r.candidate
	if j == nil || j == behind || j.Phase() != scheduler.Waiting || !r.fits(j) {
		r.candidate = r.engine.NextBackfill(behind, r.runtimeLimit)
	}
	return r.candidate != nil
}

// fits reports whether a job could start now, as far as is promised yet.
func (r *Backfiller) fits(j *scheduler.Job) bool {
	room := r.runtimeLimit(j)
	return room > 0 && j.Remaining(r.now) <= room
}

// nextIsFor reports whether the next promise is one to a job, and may still come true.
func (r *Backfiller) nextIsFor(j *scheduler.Job) bool {
	if r.next == len(r.reservations) {
		return false
	}
	p := &r.reservations[r.next]
	return p.job == j && p.from > r.now
}

// ReservedFor is from when on a waiting job was promised its GPUs in the last walk; Forever where they
// are never expected to be free.
func (r *Backfiller) ReservedFor(j *scheduler.Job) (at time.Duration, ok bool) {
	r.completeUpTo(j)
	i := slices.IndexFunc(r.reservations, func(p reservation) bool { return p.job == j })
	if i < 0 {
		return 0, false
	}
	return r.reservations[i].from, true
}

// completeUpTo makes the promises up to a job's that were put off, unless they could not be the same any
// more.
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

// cancelRest takes all promises back that the walk has not come by.
func (r *Backfiller) cancelRest() {
	for _, p := range r.reservations[r.next:] {
		r.cancel(p)
	}
	r.reservations = r.reservations[:r.next]
}

// MaxRuntime is how long a job may run if it starts now.
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

// runtimeLimit is how long a job without a promise may run.
func (r *Backfiller) runtimeLimit(j *scheduler.Job) time.Duration {
	longest := scheduler.Forever
	gpus := wholeGPUs(j)
	for _, p := range r.affectedProfiles(j) {
		longest = min(longest, p.runtimeLimit(r.now, gpus))
	}
	return longest
}

// wholeGPUs is how many GPUs a job keeps others from using as a whole.
func wholeGPUs(j *scheduler.Job) int {
	if j.Share() < cluster.WholeGPU {
		return 1
	}
	return j.GPUs()
}

// earliest is the first time from which on a job can have its GPUs for so long.
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
