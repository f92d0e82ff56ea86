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

// ByName makes a backfiller, which belongs to one engine; nil for none. "conservative:N" promises times to the first N waiting jobs only.
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

// Reservations promises times to the first waiting jobs. It belongs to one engine, and remembers its promises from one walk to the next as
// long as everything happens as expected; after a surprise all are made anew, in the jobs' order, and some may then be later than before.
type Reservations struct {
	depth int // 0 means everybody

	free      *scheduler.Free
	surprises int
	now       time.Duration
	promises  []promise // in the jobs' order
	passed    int       // how many of them the walk has come by
	profiles  []*profile
}

// promise is that a job gets so many GPUs for so long.
type promise struct {
	job      *scheduler.Job
	gpus     int
	from, to time.Duration
}

// EASY promises a time to the first job that has to wait.
func EASY() *Reservations { return Conservative(1) }

// Conservative promises times to as many jobs; 0 means to all that wait. The time that this takes grows with the number of promises,
// for each job that comes and for each surprise.
func Conservative(depth int) *Reservations { return &Reservations{depth: depth} }

// Open begins a walk.
func (r *Reservations) Open(v scheduler.View) scheduler.Book {
	if f := v.Free(); f != r.free || f.Surprises() != r.surprises || slices.ContainsFunc(r.promises, broken) {
		r.free, r.surprises = f, f.Surprises()
		r.promises, r.profiles = r.promises[:0], nil
	}
	r.now, r.passed = v.Now(), 0
	for _, p := range r.profiles {
		p.expire(r.now)
	}
	return r
}

// broken reports whether a job that was promised a time started at another one, or wants it no more. What others were promised may
// not be true any longer.
func broken(p promise) bool {
	phase := p.job.Phase()
	return phase != scheduler.Waiting && (phase != scheduler.Running || p.job.Since() != p.from)
}

// settle takes promises out that have been kept: what their jobs have of GPUs is known by now to whoever asks what is free.
func (r *Reservations) settle() {
	for r.passed < len(r.promises) && r.promises[r.passed].job.Phase() != scheduler.Waiting {
		r.enter(r.promises[r.passed], -1)
		r.promises = slices.Delete(r.promises, r.passed, r.passed+1)
	}
}

// Promise enters a job that cannot start now.
func (r *Reservations) Promise(j *scheduler.Job) (more bool) {
	r.settle()
	if !r.has(j) {
		r.drop()
		p := promise{job: j, gpus: whole(j)}
		p.from, p.to = r.earliest(j, p.gpus, j.Remaining(r.now))
		r.enter(p, +1)
		r.promises = append(r.promises, p)
	}
	r.passed++
	return r.depth == 0 || r.passed < r.depth
}

// has reports whether the next promise is one to a job, and may still come true.
func (r *Reservations) has(j *scheduler.Job) bool {
	if r.passed == len(r.promises) {
		return false
	}
	p := &r.promises[r.passed]
	return p.job == j && p.from > r.now
}

// Promised is from when on a waiting job was promised its GPUs in the last walk; Forever where they are never expected to be free.
func (r *Reservations) Promised(j *scheduler.Job) (at time.Duration, ok bool) {
	i := slices.IndexFunc(r.promises, func(p promise) bool { return p.job == j })
	if i < 0 {
		return 0, false
	}
	return r.promises[i].from, true
}

// drop takes all promises back that the walk has not come by.
func (r *Reservations) drop() {
	for _, p := range r.promises[r.passed:] {
		r.enter(p, -1)
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
	from = r.now
	for settled := false; !settled; {
		settled = true
		for _, p := range profiles {
			at := p.earliest(from, gpus, long)
			if at == scheduler.Forever {
				return at, at
			}
			settled = settled && at == from
			from = at
		}
	}
	return from, from + min(long, scheduler.Forever-from)
}
