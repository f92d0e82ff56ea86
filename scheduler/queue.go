package scheduler

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/phos-gpu/phos/scheduler/timers"

	"github.com/phos-gpu/phos/scheduler/ranked"
)

// group is the jobs that a Grouper ranks together. Without one, all jobs are one group.
type group struct {
	name    string
	root    string // the name up to the first slash
	rank    Rank
	waiting ranked.Queue[*Job] // by rank
	series  []*series          // preemptible running jobs
	passed  ranked.Key         // how far the walk has come
	walked  uint64             // the walk that passed belongs to
}

// series is the running jobs of a group whose ranks grow at the same rate, so that their order
// never changes.
type series struct {
	growth float64
	jobs   ranked.Tree[*Job] // by the rank's value extrapolated to time 0
}

// groupOf returns the group of an admitted job.
func (e *Engine) groupOf(j *Job) *group {
	name := ""
	if e.grouper != nil {
		name = callPolicy(e, "order", func() string { return e.grouper.Group(j) })
	}
	g := e.named[name]
	if g == nil {
		root, _, _ := strings.Cut(name, "/")
		g = &group{name: name, root: root, waiting: ranked.Queue[*Job]{TrackTimes: e.policies.Backfill != nil}}
		e.named[name] = g
		e.roots[root] = append(e.roots[root], g)
		e.insertGroup(g)
	}
	return g
}

// regroup asks for the ranks of all groups under a job's root again.
func (e *Engine) regroup(j *Job) {
	if e.grouper != nil {
		rankGroups(e, e.roots[j.group.root])
	}
}

// rankGroups asks for the ranks of some groups again.
func rankGroups(e *Engine, groups []*group) {
	for _, g := range groups {
		rank := e.groupRank(g, Amount{})
		if rank.Compare(g.rank) == 0 {
			continue
		}
		at, _ := slices.BinarySearchFunc(e.groups, g, compareGroups)
		e.groups = slices.Delete(e.groups, at, at+1)
		g.rank = rank
		e.insertGroup(g)
	}
}

// insertGroup inserts a group by its rank.
func (e *Engine) insertGroup(g *group) {
	at, _ := slices.BinarySearchFunc(e.groups, g, compareGroups)
	e.groups = slices.Insert(e.groups, at, g)
}

// compareGroups compares groups by rank, then by name.
func compareGroups(a, b *group) int {
	return cmp.Or(a.rank.Compare(b.rank), strings.Compare(a.name, b.name))
}

// groupRank returns a group's rank as if it held more.
func (e *Engine) groupRank(g *group, more Amount) Rank {
	return e.sanitize(callPolicy(e, "order", func() Rank { return e.grouper.RankGroup(e, g.name, more) }))
}

// sanitize returns a rank that can be compared and added up, and reports an invalid one.
func (e *Engine) sanitize(r Rank) Rank {
	if math.IsNaN(r.Value) || math.IsInf(r.Value, 0) || math.IsNaN(r.Growth) || math.IsInf(r.Growth, 0) {
		e.reportPolicy("order", fmt.Errorf("rank with value %v and growth %v", r.Value, r.Growth))
		return Rank{Tier: r.Tier}
	}
	if r.Until != 0 && r.Until <= e.now {
		e.reportPolicy("order", fmt.Errorf("rank has an Until of %v, which is in the past", r.Until))
		r.Until = 0
	}
	return r
}

// rerank asks for a job's rank and moves the job to its place.
func (e *Engine) rerank(j *Job) {
	e.unqueue(j)
	j.rank = e.sanitize(askRank(e, j))
	j.ranked = e.now
	if j.phase == Running {
		j.ranked = max(e.now, j.from)
	}
	j.rankVersion++
	if j.rank.Until != 0 {
		e.rerankTimers.Add(e.newTimer(j, j.rank.Until, j.rankVersion))
	}
	e.enqueue(j)
}

// askRank is callPolicy for a job's rank, which is asked for far more often than all else.
func askRank(e *Engine, j *Job) (rank Rank) {
	defer func() {
		if r := recover(); r != nil {
			e.reportPolicy("order", panicError(r))
			rank = Rank{}
		}
	}()
	return e.policies.Order.Rank(e, j)
}

type timerQueue = timers.Queue[*Job]

// newTimer returns the arguments of timerQueue.Add.
func (e *Engine) newTimer(j *Job, at time.Duration, mark int) (a timers.Timer[*Job], jobs int) {
	return timers.Timer[*Job]{At: at, Subject: j, Number: int64(j.facts.ID), Version: mark}, len(e.jobs)
}

// rerankTimerValid reports whether a timer is for the current rank of its job.
func rerankTimerValid(a timers.Timer[*Job]) bool {
	return a.Subject.phase != Ended && a.Subject.rankVersion == a.Version
}

// preemptTimerValid reports whether a timer is for the current run of its job, which is not
// preemptible yet.
func preemptTimerValid(a timers.Timer[*Job]) bool {
	j := a.Subject
	return j.phase == Running && j.run == a.Version && j.preemptibleAt == a.At && !j.preemptible
}

// enqueue adds a job to the queue, or to the series if it is running and preemptible.
func (e *Engine) enqueue(j *Job) {
	k := ranked.Key{Tier: j.rank.Tier, Value: j.rank.Value, At: j.facts.Submit, ID: int64(j.facts.ID)}
	switch {
	case j.phase == Waiting:
		var own ranked.Content
		if j.group.waiting.TrackTimes {
			own = j.content()
		}
		j.inQueue = j.group.waiting.Add(&j.leaf, k, j, j.shape.need, own)
		j.shape.class.queued++
	case j.phase == Running && j.preemptible:
		j.series = j.group.seriesOf(j.rank.Growth)
		k.Value = j.series.valueAtZero(j)
		j.inSeries = j.series.jobs.Add(&j.leaf, k, j, j.content())
	}
}

// content returns what trees add up over jobs.
func (j *Job) content() ranked.Content {
	return ranked.Content{Held: len(j.placement), Time: j.timeLeft(), Longest: &j.shape.class.maxRuntime}
}

// unqueue undoes enqueue.
func (e *Engine) unqueue(j *Job) {
	if j.inQueue != nil {
		j.group.waiting.Remove(j.inQueue)
		j.shape.class.queued--
		j.inQueue = nil
	}
	if j.inSeries != nil {
		j.series.jobs.Remove(j.inSeries)
		j.inSeries, j.series = nil, nil
	}
}

// seriesOf returns the series for a growth rate.
func (g *group) seriesOf(growth float64) *series {
	i, found := slices.BinarySearchFunc(
		g.series,
		growth,
		func(s *series, growth float64) int { return cmp.Compare(s.growth, growth) },
	)
	if !found {
		empty := slices.IndexFunc(g.series, func(s *series) bool { return s.jobs.Size == 0 })
		if empty >= 0 && len(g.series) > 64 {
			g.series = slices.DeleteFunc(g.series, func(s *series) bool { return s.jobs.Size == 0 })
			return g.seriesOf(growth)
		}
		g.series = slices.Insert(g.series, i, &series{growth: growth, jobs: ranked.Tree[*Job]{Sums: true}})
	}
	return g.series[i]
}

// valueAtZero extrapolates the value of a job's rank to time 0.
func (s *series) valueAtZero(j *Job) float64 { return j.rank.Value - s.growth*j.ranked.Seconds() }

// rankAt returns a job's rank at a time.
func (j *Job) rankAt(now time.Duration) Rank {
	if j.phase != Running || now <= j.ranked {
		return j.rank
	}
	return j.rank.after(now - j.ranked)
}

// After a Placer has found nothing for one job, it is not asked for other jobs of the same shape
// until GPUs become free. A shape is one bit of a word, so that the tree can be searched for the
// first job of another shape.

// request is what a Placer can tell jobs apart by.
type request struct {
	gpus, share    int
	fewest         int // least number of GPUs of an elastic job
	gpuType, model string
	memoryBytes    int64
	constraint     string
}

// resourceShape is all jobs with the same request.
type resourceShape struct {
	bit        uint64
	fits       bool   // the empty cluster is large enough
	failedWalk uint64 // the last walk that found no place for it
	need       ranked.Need
	class      *equivalenceClass
	probe      *Job // an example job
}

// equivalenceClass is all shapes that request the same GPUs, whatever their jobs compute. A
// Backfiller has the same answer for all of them.
type equivalenceClass struct {
	request
	probe      *Job
	queued     int           // how many such jobs wait
	maxRuntime time.Duration // if one starts now
}

// common is the bit of all shapes after the 63rd; it is never skipped.
const common = 1 << 63

// shapeOf returns the shape of a job.
func (e *Engine) shapeOf(j *Job) *resourceShape {
	w := request{
		gpus: j.gpus, share: j.facts.Share, fewest: j.gpus,
		gpuType: j.facts.GPUType, model: j.facts.Model, memoryBytes: j.facts.GPUMemoryBytes,
		constraint: j.facts.Constraint,
	}
	if e.policies.Allocate != nil {
		w.fewest, _ = j.Bounds()
	}
	s := e.shapes[w]
	if s == nil {
		s = &resourceShape{bit: common, class: e.classOf(w, j)}
		s.probe = &Job{facts: j.facts, gpus: j.gpus}
		if len(e.shapes) < 63 {
			s.bit = 1 << len(e.shapes)
		}
		s.need = ranked.Need{Shape: s.bit, MinGPUs: j.minFree()}
		if e.policies.Allocate != nil {
			s.need = ranked.Need{Shape: common} // one lane: an Allocator lists all jobs, and does not search
		}
		s.fits = e.free.couldHold(s.probe, w.fewest)
		e.shapes[w] = s
	}
	return s
}

// classOf returns the equivalence class of a request.
func (e *Engine) classOf(w request, j *Job) *equivalenceClass {
	w.model, w.fewest = "", 0
	for _, l := range e.classes {
		if l.request == w {
			return l
		}
	}
	l := &equivalenceClass{request: w, probe: &Job{facts: j.facts, gpus: j.gpus}}
	e.classes = append(e.classes, l)
	return l
}

// couldHold reports whether the cluster has enough GPUs that suit a job, in use or not.
func (f *Free) couldHold(j *Job, fewest int) bool {
	for i := range f.nodes {
		if f.Suits(j, f.nodes[i].ID) {
			fewest -= f.nodes[i].GPUs
		}
		if fewest <= 0 {
			return true
		}
	}
	return false
}

// minFree returns how many unused GPUs there must be before the Placer is asked for a place.
func (j *Job) minFree() int {
	if j.facts.Share < wholeGPU {
		return 0
	}
	return j.gpus
}

// timeLeft returns how much longer a job without GPUs will run by its estimate.
func (j *Job) timeLeft() time.Duration { return max(0, j.facts.Estimate-j.done) }
