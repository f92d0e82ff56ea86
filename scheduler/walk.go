package scheduler

import (
	"math"
	"time"

	"github.com/phos-gpu/phos/cluster"
)

// walk is one way through the queue.
type walk struct {
	wish    wish
	book    Book // since the first job was blocked in a strict walk with backfill
	more    bool // everybody who cannot start is promised a time
	tried   int
	victims bool // whether somebody may still be stopped for a waiting job
}

// walk gives GPUs to waiting jobs, in their order.
func (e *Engine) walk() {
	defer e.conclude()
	w := e.newWalk()
	for e.waiting > 0 {
		j := e.nextInLine(w)
		if j == nil {
			return
		}
		if !j.account.allows(j, j.GPUs()) {
			continue
		}
		started, placed := e.tryStart(j, w)
		if started || w.victims && e.makeRoom(j, w) {
			continue
		}
		if !e.goOn(j, w, placed) {
			return
		}
	}
}

func (e *Engine) newWalk() *walk {
	e.walks++
	e.blocked, e.measured = e.blocked[:0], false
	return &walk{wish: anything, victims: e.preempts}
}

// nextInLine is the first job that has not been tried and is worth it.
func (e *Engine) nextInLine(w *walk) *Job {
	watched := e.preempts && len(e.blocked) < mostBlocked // the first of each shape is wanted, whatever it needs
	if !w.victims && !w.more && (e.fill && !watched || w.book != nil) {
		w.wish.most = e.free.Whole("")
	}
	for _, g := range e.groups {
		for {
			found := g.waiting.root.first(g.reached(e.walks), &w.wish)
			if found == nil {
				break
			}
			g.passed, g.walked = found.key, e.walks
			if found.job.shape.failed != e.walks {
				return found.job
			}
		}
	}
	return nil
}

// reached is the last job of a group that a walk has seen, or nil.
func (g *group) reached(walk uint64) *key {
	if g.walked != walk {
		return nil
	}
	return &g.passed
}

// tryStart starts a job if it fits; placed says that there would have been a place for it.
func (e *Engine) tryStart(j *Job, w *walk) (started, placed bool) {
	if w.more && e.longest(w, j) <= 0 {
		return false, true
	}
	on, speed := e.place(j, j.GPUs())
	if on == nil {
		return false, false
	}
	if w.book != nil && e.span(j, on, speed) > e.longest(w, j) {
		return false, true
	}
	e.launch(j, on, speed)
	if w.book != nil && !w.more {
		w.hurry(e)
	}
	return true, true
}

// place finds GPUs for a job, or nil, and says how fast it will be on them.
func (e *Engine) place(j *Job, n int) (cluster.Placement, float64) {
	if j.facts.Share == wholeGPU && n > e.free.WholeFor(j) || !j.account.allows(j, n) {
		return nil, 0
	}
	type answer struct {
		on cluster.Placement
		ok bool
	}
	a := ask(e, "place", func() (a answer) {
		a.on, a.ok = e.policies.Place.Place(e, j, n)
		return a
	})
	if !a.ok {
		return nil, 0
	}
	return e.fit(j, a.on, n, "place")
}

// fit is a policy's placement and the job's speed on it, or nothing where that makes no sense.
func (e *Engine) fit(j *Job, on cluster.Placement, n int, policy string) (cluster.Placement, float64) {
	on, err := e.checked(j, on, n)
	if err != nil {
		e.wrong(policy, err)
		return nil, 0
	}
	speed := e.speed(j, on)
	if speed == 0 {
		return nil, 0
	}
	return on, speed
}

// goOn decides what happens after a job was not started.
func (e *Engine) goOn(j *Job, w *walk, placed bool) bool {
	if w.book == nil {
		e.block(j)
		if !e.fill {
			return e.overtake(j, w)
		}
	}
	if w.more {
		e.promise(j, w)
		return true
	}
	if !placed {
		e.noPlace(j, w)
	}
	w.tried++
	return e.policies.Depth == 0 || w.tried < e.policies.Depth
}

// noPlace keeps the walk from trying others like a job.
func (e *Engine) noPlace(j *Job, w *walk) {
	j.shape.failed = e.walks
	if j.shape.bit != common {
		w.wish.skip |= j.shape.bit
	}
}

// mostBlocked is how many jobs that found no place the engine watches.
const mostBlocked = 64

func (e *Engine) block(j *Job) {
	if len(e.blocked) < mostBlocked {
		e.blocked = append(e.blocked, blockedJob{Job: j})
	}
}

// overtake lets jobs go before the first one that does not fit, as far as a Backfiller allows.
func (e *Engine) overtake(first *Job, w *walk) bool {
	if e.policies.Backfill == nil {
		return false
	}
	e.free.postpone(e.now)
	w.book = ask(e, "backfill", func() Book { return e.policies.Backfill.Open(e) })
	w.victims = false
	if w.book == nil {
		return false
	}
	e.promise(first, w)
	return true
}

// promise enters a job that cannot start. Once nobody else is promised anything, the queue need not
// be walked job by job.
func (e *Engine) promise(j *Job, w *walk) {
	w.more = ask(e, "backfill", func() bool { return w.book.Promise(j) })
	if !w.more {
		w.hurry(e)
	}
}

// hurry leaves out whoever would take too long.
func (w *walk) hurry(e *Engine) {
	e.hurry(&w.wish, func(j *Job) time.Duration { return e.longest(w, j) })
}

// longest is how long a job may run if it starts now.
func (e *Engine) longest(w *walk, j *Job) time.Duration {
	return ask(e, "backfill", func() time.Duration { return w.book.Longest(j) })
}

// hurry keeps a wish to jobs that take no longer than they may; longest says that, once for all
// that want the same GPUs.
func (e *Engine) hurry(w *wish, longest func(*Job) time.Duration) {
	w.hurried = true
	for i := range w.brief {
		w.brief[i] = -1
	}
	free := e.free.Whole("")
	for _, l := range e.likes {
		l.longest = -1
		if l.queued == 0 || l.probe.least() > free {
			continue
		}
		if may := longest(l.probe); may > 0 {
			l.longest = may
		}
		size := sizeOf(l.probe.least())
		w.brief[size] = max(w.brief[size], l.longest)
	}
}

// span is how long a job would have GPUs if it started now, until its estimated end.
func (e *Engine) span(j *Job, on cluster.Placement, speed float64) time.Duration {
	span := Span(j.left(), speed)
	if span >= math.MaxInt64/4 {
		return span
	}
	load := e.cost(func(c Costs) time.Duration { return c.Load(j, on) })
	return max(e.readyAt(on), j.saved) - e.now + load + span
}
