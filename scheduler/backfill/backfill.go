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

// Reservations promises times to the first waiting jobs. It belongs to one engine, and remembers
// its promises from one walk to the next as long as everything happens as expected; after a
// surprise all are made anew, in the jobs' order, and some may then be later than before.
//
// Where the engine can foresee what becomes of promises, those behind the last job that could start
// now are put off: nobody would see them, and most surprises would make them void before anybody
// did. Made later, they are the same.
type Reservations struct {
	depth int // 0 means everybody

	engine    *scheduler.Engine // nil where promises cannot be put off
	free      *scheduler.Free
	surprises int
	// there was a job that could have started, but its placement did not like the GPUs: no promise
	// foresees that
	refused  bool
	now      time.Duration
	promises []promise      // in the jobs' order
	passed   int            // how many of them the walk has come by
	due      int            // how many others are for now: their jobs can start, whatever else is promised
	hopeful  *scheduler.Job // a job behind the last promise that could start now, as far as is promised yet
	profiles []*profile
	old      []*profile // of no use but for their memory
}

// promise is that a job gets so many GPUs for so long.
type promise struct {
	job      *scheduler.Job
	gpus     int
	from, to time.Duration
}

// EASY promises a time to the first job that has to wait.
func EASY() *Reservations { return Conservative(1) }

// Conservative promises times to as many jobs; 0 means to all that wait.
func Conservative(depth int) *Reservations { return &Reservations{depth: depth} }

// Open begins a walk.
func (r *Reservations) Open(v scheduler.View) scheduler.Book {
	if f := v.Free(); f != r.free || f.Surprises() != r.surprises || slices.ContainsFunc(r.promises, broken) {
		r.free, r.surprises = f, f.Surprises()
		r.promises = r.promises[:0]
		r.profiles, r.old = r.profiles[:0], append(r.old, r.profiles...)
	}
	r.now, r.passed, r.due, r.hopeful, r.engine = v.Now(), 0, 0, nil, nil
	if e, ok := v.(*scheduler.Engine); ok && !r.refused && e.Foresees() {
		r.engine = e
	}
	for _, p := range r.promises {
		if p.from <= r.now {
			r.due++
		}
	}
	for _, p := range r.profiles {
		p.promised.expire(r.now)
		if r.engine == nil {
			p.forget()
		}
	}
	return r
}

// broken reports whether a job that was promised a time started at another one, or wants it no
// more. What others were promised may not be true any longer.
func broken(p promise) bool {
	phase := p.job.Phase()
	return phase != scheduler.Waiting && (phase != scheduler.Running || p.job.Since() != p.from)
}

// settle takes promises out that have been kept: what their jobs have of GPUs is known by now to
// whoever asks what is free.
func (r *Reservations) settle() {
	for r.passed < len(r.promises) && r.promises[r.passed].job.Phase() != scheduler.Waiting {
		r.takeBack(r.promises[r.passed])
		r.promises = slices.Delete(r.promises, r.passed, r.passed+1)
	}
}

// takeBack makes one of those promises count no more that the walk has not come by.
func (r *Reservations) takeBack(p promise) {
	r.enter(p, -1)
	if r.engine == nil || p.job.Phase() == scheduler.Waiting {
		for _, other := range r.profiles {
			other.forget()
		}
	}
	if p.from <= r.now {
		r.due--
	}
}

// Promise enters a job that cannot start now.
func (r *Reservations) Promise(j *scheduler.Job) (more bool) {
	r.settle()
	if !r.has(j) {
		r.drop()
		r.append(j)
		if p := r.promises[r.passed]; p.from <= r.now && p.gpus <= r.free.WholeFor(j) {
			r.refused, r.engine = true, nil
		}
	}
	r.passed++
	return (r.depth == 0 || r.passed < r.depth) && (r.engine == nil || r.due > 0 || r.hopes(j))
}

// append promises a job a time behind all others.
func (r *Reservations) append(j *scheduler.Job) {
	p := promise{job: j, gpus: whole(j)}
	p.from, p.to = r.earliest(j, p.gpus, j.Lasts(r.now))
	r.enter(p, +1)
	r.promises = append(r.promises, p)
}

// hopes reports whether there is a job behind another that could start now. Every promise before it
// can only make that worse: so a job that has been found is looked at until the walk has come to it
// or it has no hope any more.
func (r *Reservations) hopes(behind *scheduler.Job) bool {
	j := r.hopeful
	if j == nil || j == behind || j.Phase() != scheduler.Waiting || !r.fits(j) {
		r.hopeful = r.engine.Hopeful(behind, r.room)
	}
	return r.hopeful != nil
}

// fits reports whether a job could start now, as far as is promised yet.
func (r *Reservations) fits(j *scheduler.Job) bool {
	room := r.room(j)
	return room > 0 && j.Remaining(r.now) <= room
}

// has reports whether the next promise is one to a job, and may still come true.
func (r *Reservations) has(j *scheduler.Job) bool {
	if r.passed == len(r.promises) {
		return false
	}
	p := &r.promises[r.passed]
	return p.job == j && p.from > r.now
}

// Promised is from when on a waiting job was promised its GPUs in the last walk; Forever where they
// are never expected to be free.
func (r *Reservations) Promised(j *scheduler.Job) (at time.Duration, ok bool) {
	r.catchUp(j)
	i := slices.IndexFunc(r.promises, func(p promise) bool { return p.job == j })
	if i < 0 {
		return 0, false
	}
	return r.promises[i].from, true
}

// catchUp makes the promises up to a job's that were put off, unless they could not be the same any
// more.
func (r *Reservations) catchUp(last *scheduler.Job) {
	if r.engine == nil || r.engine.Free().Surprises() != r.surprises {
		return
	}
	waiting := 0
	for j := range r.engine.Waiting() {
		waiting++
		if waiting > r.depth && r.depth > 0 {
			return
		}
		if !slices.ContainsFunc(r.promises, func(p promise) bool { return p.job == j }) {
			r.append(j)
		}
		if j == last {
			return
		}
	}
}

// drop takes all promises back that the walk has not come by.
func (r *Reservations) drop() {
	for _, p := range r.promises[r.passed:] {
		r.takeBack(p)
	}
	r.promises = r.promises[:r.passed]
}

// Longest is how long a job may run if it starts now.
func (r *Reservations) Longest(j *scheduler.Job) time.Duration {
	r.settle()
	if r.passed < len(r.promises) && r.promises[r.passed].job == j {
		if r.promises[r.passed].from > r.now {
			return 0
		}
		return scheduler.Forever
	}
	return r.room(j)
}

// room is how long a job without a promise may run.
func (r *Reservations) room(j *scheduler.Job) time.Duration {
	longest := scheduler.Forever
	gpus := whole(j)
	for _, p := range r.touched(j) {
		longest = min(longest, p.longest(r.now, gpus))
	}
	return longest
}

// whole is how many GPUs a job keeps others from using as a whole.
func whole(j *scheduler.Job) int {
	if j.Share() < cluster.WholeGPU {
		return 1
	}
	return j.GPUs()
}

// earliest is the first time from which on a job can have its GPUs for so long.
func (r *Reservations) earliest(j *scheduler.Job, gpus int, long time.Duration) (from, to time.Duration) {
	profiles := r.touched(j)
	known := profiles[0].known[gpus]
	from = max(r.now, known.earliest(long))
	for settled := false; !settled; {
		settled = true
		for _, p := range profiles {
			at := p.earliest(from, gpus, long)
			settled = settled && at == from
			from = at
		}
	}
	profiles[0].known[gpus] = known.note(found{long, from})
	return from, from + min(long, scheduler.Forever-from)
}
