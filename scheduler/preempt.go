package scheduler

import (
	"errors"
	"iter"
	"math"
	"slices"
	"time"

	"github.com/phos-gpu/phos/scheduler/cluster"
	"github.com/phos-gpu/phos/scheduler/ranked"
)

// makeRoom preempts jobs that rank behind a waiting one and starts it, if it fits then.
func (e *Engine) makeRoom(j *Job, w *walk) bool {
	if e.grouper != nil && j.cycling(e.now) {
		return false
	}
	if e.grouper == nil {
		behind := e.heldBehind(j.group, j.rank)
		w.victims = behind > 0 // the waiting jobs behind j have even fewer running jobs behind them
		if behind == 0 || e.free.WholeFor(j)+behind < j.minFree() {
			return false
		}
	}
	need := max(1, j.minFree()-e.free.WholeFor(j))
	for ; ; need *= 2 {
		victims := e.chooseVictims(j, need)
		if on, speed, stopped := e.placeWithout(j, victims); on != nil {
			e.observePreemptions(stopped, j)
			for _, v := range stopped {
				e.stop(v)
			}
			e.free.allocate(on, j.facts.Share)
			e.launch(j, on, speed)
			w.restart(e, j, stopped)
			return true
		}
		if held(victims) < need {
			return false
		}
	}
}

// cycling reports whether a job has already been preempted twice at this time. Without this limit
// two groups could preempt each other forever at one time: a group is compared by what one of its
// jobs takes, but what a victim had beyond that goes to any job that fits, possibly of that group.
func (j *Job) cycling(now time.Duration) bool { return j.preemptedAt == now && j.preemptionsAtOnce > 1 }

// held returns the sum of the GPUs of running jobs.
func held(jobs []*Job) (gpus int) {
	for _, j := range jobs {
		gpus += len(j.placement)
	}
	return gpus
}

// restart begins the walk again if more GPUs were freed than needed, or if it has passed the place
// of a victim: one of equal rank that was submitted earlier.
func (w *walk) restart(e *Engine, j *Job, stopped []*Job) {
	freed, passed := 0, false
	for _, v := range stopped {
		freed += v.GPUs() * v.Share()
		passed = passed || v.rank.Compare(j.rank) <= 0
	}
	if freed > j.GPUs()*j.Share() || passed {
		*w = e.newWalk()
	}
}

// chooseVictims asks for victims and drops invalid ones. The result is valid until the next call.
func (e *Engine) chooseVictims(j *Job, need int) []*Job {
	e.candidateRound++
	named := callPolicy(e, "victims", func() []*Job {
		return e.policies.Preempt.Choose(e, Demand{Job: j, GPUs: need}, e.candidates(j))
	})
	e.victims = e.victims[:0]
	for _, v := range named {
		if v == nil || v.candidateIn != e.candidateRound {
			e.reportPolicy("victims", errors.New("a victim is not a candidate, or is listed twice"))
			continue
		}
		v.candidateIn = 0
		e.victims = append(e.victims, v)
	}
	return e.victims
}

// placeWithout finds a place for a job without some of the victims, and returns which of them must
// stop. The GPUs of those with whole GPUs are free afterwards; nothing else has changed.
func (e *Engine) placeWithout(j *Job, victims []*Job) (on cluster.Placement, speed float64, stopped []*Job) {
	gone := 0
	for on == nil && gone < len(victims) {
		v := victims[gone]
		e.free.release(v.placement, v.facts.Share)
		gone++
		on, speed = e.place(j, j.GPUs())
	}
	victims = victims[:gone]
	if on != nil {
		on, speed, victims = e.spareVictims(j, victims, on, speed)
	}
	for _, v := range victims {
		if v.gpusReleased = v.facts.Share == wholeGPU && overlap(v.placement, on); !v.gpusReleased {
			e.free.allocate(v.placement, v.facts.Share)
		}
	}
	stopped = e.stopped[:0]
	for _, v := range victims {
		if v.gpusReleased || e.mustStop(v, j, on) {
			stopped = append(stopped, v)
		}
	}
	e.stopped = stopped
	return on, speed, stopped
}

// overlap reports whether two placements have a GPU in common.
func overlap(a, b cluster.Placement) bool {
	return slices.ContainsFunc(a, func(gpu cluster.GPU) bool { return slices.Contains(b, gpu) })
}

// mustStop reports whether v must give up its share of a GPU so that j can be placed there.
func (e *Engine) mustStop(v, j *Job, on cluster.Placement) bool {
	return v.facts.Share != wholeGPU && slices.ContainsFunc(on, func(gpu cluster.GPU) bool {
		return e.free.Share(gpu) < j.facts.Share && slices.Contains(v.placement, gpu)
	})
}

// spareVictims drops victims (whose GPUs are free for now) without which there is a place as well:
// the last victim made the place possible, so some of those before it may not be needed.
func (e *Engine) spareVictims(
	j *Job,
	victims []*Job,
	on cluster.Placement,
	speed float64,
) (cluster.Placement, float64, []*Job) {
	for i := 0; i < len(victims)-1; {
		v := victims[i]
		e.free.allocate(v.placement, v.facts.Share)
		without, itsSpeed := e.place(j, j.GPUs())
		if without == nil {
			e.free.release(v.placement, v.facts.Share)
			i++
			continue
		}
		on, speed, victims = without, itsSpeed, slices.Delete(victims, i, i+1)
	}
	return on, speed, victims
}

// candidates returns the running jobs that may be preempted for a waiting one, last first.
func (e *Engine) candidates(j *Job) iter.Seq[*Job] {
	return func(yield func(*Job) bool) {
		offer := func(v *Job) bool {
			if !e.holdsUsableGPU(v, j) {
				return true
			}
			v.candidateIn = e.candidateRound
			return yield(v)
		}
		if e.grouper == nil || e.offerOtherGroups(j, offer) {
			e.offerOwnGroup(j, offer)
		}
	}
}

// holdsUsableGPU reports whether v has a GPU that j could use.
func (e *Engine) holdsUsableGPU(v, j *Job) bool {
	return slices.ContainsFunc(
		v.placement,
		func(gpu cluster.GPU) bool { return e.free.Suits(j, gpu.Node) && e.free.Usable(gpu) },
	)
}

// offerOwnGroup offers the jobs of j's own group that rank behind it.
func (e *Engine) offerOwnGroup(j *Job, offer func(*Job) bool) bool {
	for v := range j.group.fromLast(e.now) {
		if !v.rankAt(e.now).isBehind(j.rank, &e.policies) {
			return true
		}
		if !offer(v) {
			return false
		}
	}
	return true
}

// isBehind reports whether r, the current rank of a running job, is behind that of a waiting one.
// If jobs have a quantum, equal rank suffices for a job that will rank behind immediately
// afterwards, so that equals alternate at whole quanta.
func (r Rank) isBehind(waiting Rank, p *Policies) bool {
	if r.Tier != waiting.Tier {
		return r.Tier > waiting.Tier
	}
	return r.Value > waiting.Value || r.Value == waiting.Value && r.Growth > 0 && p.Quantum > 0
}

// offerOtherGroups offers the jobs of groups that rank behind j's group even if that had what j
// asks for. Offered jobs count as preempted, so no group loses so much that it would preempt in
// turn.
func (e *Engine) offerOtherGroups(j *Job, offer func(*Job) bool) bool {
	mine := e.groupRank(j.group, j.amount(j.GPUs()))
	type source struct {
		group *group
		rank  Rank
		taken Amount
		next  func() (*Job, bool)
	}
	var sources []*source
	for _, g := range e.groups {
		if g == j.group {
			continue
		}
		next, stop := iter.Pull(g.fromLast(e.now))
		defer stop()
		sources = append(sources, &source{group: g, rank: g.rank, next: next})
	}
	for len(sources) > 0 {
		last := slices.MaxFunc(sources, func(a, b *source) int { return a.rank.Compare(b.rank) })
		v, ok := last.next()
		if !ok || mine.Compare(last.rank) >= 0 {
			sources = slices.DeleteFunc(sources, func(s *source) bool { return s == last })
			continue
		}
		if !offer(v) {
			return false
		}
		last.taken.add(v.holds(), -1)
		last.rank = e.groupRank(last.group, last.taken)
	}
	return true
}

// fromLast iterates over the preemptible jobs of a group, highest rank value first.
func (g *group) fromLast(now time.Duration) iter.Seq[*Job] {
	return func(yield func(*Job) bool) {
		if len(g.series) == 1 {
			jobs := &g.series[0].jobs
			for v := jobs.LastBefore(nil); v != nil && yield(v.Job); v = jobs.LastBefore(&v.Key) {
			}
			return
		}
		heads := make([]*ranked.Leaf[*Job], len(g.series))
		for i, s := range g.series {
			heads[i] = s.jobs.LastBefore(nil)
		}
		for {
			at := -1
			for i, head := range heads {
				if head != nil && (at < 0 || ranksAfter(head.Job, heads[at].Job, now)) {
					at = i
				}
			}
			if at < 0 || !yield(heads[at].Job) {
				return
			}
			heads[at] = g.series[at].jobs.LastBefore(&heads[at].Key)
		}
	}
}

// ranksAfter reports whether running job a ranks behind b.
func ranksAfter(a, b *Job, now time.Duration) bool {
	if c := a.rankAt(now).Compare(b.rankAt(now)); c != 0 {
		return c > 0
	}
	return byDue(a, b) > 0
}

// heldBehind returns how many GPUs the running jobs of a group have that rank behind a waiting job
// or equal. It may include a few jobs that will be equal a moment later; ranks are compared exactly
// only where it matters.
func (e *Engine) heldBehind(g *group, waiting Rank) (gpus int) {
	for _, s := range g.series {
		gpus += s.heldBehind(waiting, e.seconds)
	}
	return gpus
}

// precision is the relative error of float64 sums and products, with a wide margin.
const precision = 1e-12

// heldBehind returns how many GPUs the jobs of the series have that rank behind a waiting one or
// equal.
func (s *series) heldBehind(waiting Rank, now float64) int {
	grown := s.growth * now
	slack := precision * (math.Abs(waiting.Value) + math.Abs(grown))
	return s.jobs.HeldBehind(&ranked.Key{Tier: waiting.Tier, Value: waiting.Value - grown - slack, At: math.MinInt64})
}

// markExhausted notes that the walk has started every job that could start, so that the next one
// can be skipped until one of e.blocked may start. If something other than GPUs and ranks kept jobs
// from starting, that is unknown.
func (e *Engine) markExhausted() {
	e.exhausted = e.grouper == nil && len(e.policies.Caps) == 0 && len(e.blocked) < maxBlocked &&
		(e.fill || e.policies.Backfill == nil)
}

// blockedJob is a job that found no place. Its key and shape are here, too: reading the job itself
// would fetch it from memory.
type blockedJob struct {
	*Job
	key   ranked.Key // in the queue
	shape *resourceShape

	behind    int // GPUs held behind it
	shortfall int // how many more must be held behind it before a preemption can help

	// While jobs take turns: when it may find a place, if it will, and whether that is computed.
	crossing          time.Duration
	crosses, foreseen bool
}

// newBlocked returns a blocked job by its key in the queue.
func newBlocked(j *Job, k ranked.Key, shape *resourceShape) blockedJob {
	return blockedJob{Job: j, key: k, shape: shape}
}

// rank returns the job's rank, to compare it with those of running jobs.
func (b *blockedJob) rank() Rank { return Rank{Tier: b.key.Tier, Value: b.key.Value} }

// anyRoom reports whether a blocked job could have enough GPUs if all jobs that rank behind it were
// preempted. If none could, the shortfalls are known afterwards, until the next walk or step.
func (e *Engine) anyRoom() bool {
	if !e.preempts || e.measured {
		return e.room
	}
	e.measured, e.room = true, false
	for i := 0; i < len(e.blocked) && !e.room; i++ {
		e.room = e.blocked[i].phase == Waiting && e.hasRoom(&e.blocked[i])
	}
	return e.room
}

// hasRoom computes a blocked job's shortfall and reports whether there is none.
func (e *Engine) hasRoom(b *blockedJob) bool {
	b.behind = e.heldBehind(b.group, b.rank())
	b.shortfall = b.minFree() - e.free.WholeFor(b.Job) - b.behind
	if b.behind == 0 {
		b.shortfall = max(1, b.shortfall)
	}
	return b.shortfall <= 0
}

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
			next = s.jobs.Last(func(v *Job) bool { return !v.rankAt(e.now).isBehind(j.rank, &e.policies) })
		}
		if next == nil || next.Tier != j.rank.Tier {
			continue
		}
		if t, will := s.crossesAt(next, j.rank, e.now, e.policies.Quantum > 0); will && (!ok || t < at) {
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
	return s.heldBehind(b.rank(), e.seconds)
}

// crossesAt returns when a job of the series will rank behind a waiting one; if equal ranks suffice
// (turns), when they are equal.
func (s *series) crossesAt(v *ranked.Leaf[*Job], waiting Rank, now time.Duration, turns bool) (time.Duration, bool) {
	seconds := (waiting.Value - v.Value) / s.growth
	if !(seconds < math.MaxInt64/2e9) {
		return 0, false
	}
	at := time.Duration(math.Ceil(seconds * 1e9))
	if turns {
		return max(now+1, at), true
	}
	return max(now, at) + 1, true
}
