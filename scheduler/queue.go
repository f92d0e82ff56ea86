package scheduler

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/phos-gpu/phos/scheduler/timers"
)

// group is the jobs that a Grouper ranks together; without one, all jobs are one group.
type group struct {
	name    string
	root    string // the name up to the first slash
	rank    Rank
	waiting tree      // by rank
	series  []*series // running jobs that may be stopped
	passed  key       // how far the walk has come
	walked  uint64    // the walk of which passed tells
}

// series is the running jobs of a group whose ranks grow at one rate, so that their order never
// changes.
type series struct {
	growth float64
	jobs   tree // by what the rank's value would have been at time 0
}

// groupOf finds the group of a job that has been admitted.
func (e *Engine) groupOf(j *Job) *group {
	name := ""
	if e.grouper != nil {
		name = callPolicy(e, "order", func() string { return e.grouper.Group(j) })
	}
	g := e.named[name]
	if g == nil {
		root, _, _ := strings.Cut(name, "/")
		g = &group{name: name, root: root, waiting: tree{trackTimes: e.policies.Backfill != nil}}
		e.named[name] = g
		e.roots[root] = append(e.roots[root], g)
		e.insertGroup(g)
	}
	return g
}

// regroup asks for the ranks of all groups under a job's root again.
func (e *Engine) regroup(j *Job) {
	if e.grouper == nil {
		return
	}
	for _, g := range e.roots[j.group.root] {
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

// insertGroup puts a group where its rank belongs.
func (e *Engine) insertGroup(g *group) {
	at, _ := slices.BinarySearchFunc(e.groups, g, compareGroups)
	e.groups = slices.Insert(e.groups, at, g)
}

func compareGroups(a, b *group) int {
	return cmp.Or(a.rank.Compare(b.rank), strings.Compare(a.name, b.name))
}

// groupRank ranks a group as if it held so much more.
func (e *Engine) groupRank(g *group, more Amount) Rank {
	return e.sanitize(callPolicy(e, "order", func() Rank { return e.grouper.RankGroup(e, g.name, more) }))
}

// sanitize is a rank that can be compared and reckoned with.
func (e *Engine) sanitize(r Rank) Rank {
	if math.IsNaN(r.Value) || math.IsInf(r.Value, 0) || math.IsNaN(r.Growth) || math.IsInf(r.Growth, 0) {
		e.reportPolicy("order", fmt.Errorf("a rank of value %v that grows by %v", r.Value, r.Growth))
		return Rank{Tier: r.Tier}
	}
	if r.Until != 0 && r.Until <= e.now {
		e.reportPolicy("order", fmt.Errorf("a rank that holds until %v, which is over", r.Until))
		r.Until = 0
	}
	return r
}

// rerank asks for a job's rank, and puts it where it belongs.
func (e *Engine) rerank(j *Job) {
	e.unqueue(j)
	j.rank = e.sanitize(callPolicy(e, "order", func() Rank { return e.policies.Order.Rank(e, j) }))
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

type timerQueue = timers.Queue[*Job]

// newTimer makes an alarm for a job, one of so many.
func (e *Engine) newTimer(j *Job, at time.Duration, mark int) (a timers.Timer[*Job], jobs int) {
	return timers.Timer[*Job]{At: at, Subject: j, Number: int64(j.facts.ID), Version: mark}, len(e.jobs)
}

// rerankTimerValid reports whether an alarm is for the rank that its job has.
func rerankTimerValid(a timers.Timer[*Job]) bool {
	return a.Subject.phase != Ended && a.Subject.rankVersion == a.Version
}

// preemptTimerValid reports whether an alarm is for the run that its job is in, and the job is not ripe yet.
func preemptTimerValid(a timers.Timer[*Job]) bool {
	j := a.Subject
	return j.phase == Running && j.runs == a.Version && j.preemptibleAt == a.At && !j.preemptible
}

// enqueue puts a job among those that wait, or among those that may be stopped.
func (e *Engine) enqueue(j *Job) {
	k := key{j.rank.Tier, j.rank.Value, j.facts.Submit, j.facts.ID}
	switch {
	case j.phase == Waiting:
		j.inQueue = j.group.waiting.add(&j.leaves[0], k, j)
		j.shape.class.queued++
	case j.phase == Running && j.preemptible:
		j.series = j.group.seriesOf(j.rank.Growth)
		k.value = j.series.valueAtZero(j)
		j.inSeries = j.series.jobs.add(&j.leaves[0], k, j)
	}
}

// unqueue takes it out.
func (e *Engine) unqueue(j *Job) {
	if j.inQueue != nil {
		j.group.waiting.remove(j.inQueue)
		j.shape.class.queued--
		j.inQueue = nil
	}
	if j.inSeries != nil {
		j.series.jobs.remove(j.inSeries)
		j.inSeries, j.series = nil, nil
	}
}

func (g *group) seriesOf(growth float64) *series {
	i, found := slices.BinarySearchFunc(
		g.series,
		growth,
		func(s *series, growth float64) int { return cmp.Compare(s.growth, growth) },
	)
	if !found {
		empty := slices.IndexFunc(g.series, func(s *series) bool { return s.jobs.size == 0 })
		if empty >= 0 && len(g.series) > 64 {
			g.series = slices.DeleteFunc(g.series, func(s *series) bool { return s.jobs.size == 0 })
			return g.seriesOf(growth)
		}
		g.series = slices.Insert(g.series, i, &series{growth: growth})
	}
	return g.series[i]
}

// valueAtZero is what the value of a job's rank would have been at time 0.
func (s *series) valueAtZero(j *Job) float64 { return j.rank.Value - s.growth*j.ranked.Seconds() }

// now is a job's rank at a time.
func (j *Job) rankAt(now time.Duration) Rank {
	if j.phase != Running || now <= j.ranked {
		return j.rank
	}
	return j.rank.after(now - j.ranked)
}

// A Placer that finds nothing for one job is not asked again, until GPUs become free, for others
// that want the same: their shape is known as one bit of a word, so that the queue can be searched
// for the first job of another shape.

// request is what makes two jobs equal for a Placer.
type request struct {
	gpus, share    int
	fewest         int // that an elastic job can run on
	gpuType, model string
	memoryBytes    int64
}

type resourceShape struct {
	bit        uint64
	fits       bool   // whether the whole cluster, were it free, would do
	failedWalk uint64 // the number of the last walk that found no place for it
	minFree    int    // how many whole GPUs must be free before it is worth asking for a place
	class      *equivalenceClass
	probe      *Job // one that wants it
}

// equivalenceClass is all shapes that want the same GPUs, whatever their jobs compute: a Backfiller has one
// answer for them.
type equivalenceClass struct {
	request
	probe      *Job
	queued     int           // how many such jobs wait
	maxRuntime time.Duration // that one may take if it starts now
}

// common is the bit of all shapes beyond the 63rd; it is never skipped.
const common = 1 << 63

func (e *Engine) shapeOf(j *Job) *resourceShape {
	w := request{
		gpus: j.gpus, share: j.facts.Share, fewest: j.gpus,
		gpuType: j.facts.GPUType, model: j.facts.Model, memoryBytes: j.facts.GPUMemoryBytes,
	}
	if e.policies.Allocate != nil {
		w.fewest, _ = j.Bounds()
	}
	s := e.shapes[w]
	if s == nil {
		s = &resourceShape{bit: common, minFree: j.minFree(), class: e.classOf(w, j), probe: &Job{facts: j.facts, gpus: j.gpus}}
		if len(e.shapes) < 63 {
			s.bit = 1 << len(e.shapes)
		}
		s.fits = e.couldHold(s.probe, w.fewest)
		e.shapes[w] = s
	}
	return s
}

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

// couldHold reports whether the cluster has so many GPUs that suit a job, whoever uses them now.
func (e *Engine) couldHold(j *Job, fewest int) bool {
	for i := range e.nodes {
		if e.free.Suits(j, e.nodes[i].ID) {
			fewest -= e.nodes[i].GPUs
		}
		if fewest <= 0 {
			return true
		}
	}
	return false
}

// minFree is how many whole GPUs must be free before it is worth asking for the job's place.
func (j *Job) minFree() int {
	if j.facts.Share < wholeGPU {
		return 0
	}
	return j.gpus
}

// timeLeft is how much longer a job without GPUs will take by its estimate.
func (j *Job) timeLeft() time.Duration { return max(0, j.facts.Estimate-j.done) }
