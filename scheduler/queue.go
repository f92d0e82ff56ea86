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
		name = ask(e, "order", func() string { return e.grouper.Group(j) })
	}
	g := e.named[name]
	if g == nil {
		root, _, _ := strings.Cut(name, "/")
		g = &group{name: name, root: root, waiting: tree{timed: e.policies.Backfill != nil}}
		e.named[name] = g
		e.roots[root] = append(e.roots[root], g)
		e.line(g)
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
		at, _ := slices.BinarySearchFunc(e.groups, g, before)
		e.groups = slices.Delete(e.groups, at, at+1)
		g.rank = rank
		e.line(g)
	}
}

// line puts a group where its rank belongs.
func (e *Engine) line(g *group) {
	at, _ := slices.BinarySearchFunc(e.groups, g, before)
	e.groups = slices.Insert(e.groups, at, g)
}

func before(a, b *group) int { return cmp.Or(a.rank.Compare(b.rank), strings.Compare(a.name, b.name)) }

// groupRank ranks a group as if it held so much more.
func (e *Engine) groupRank(g *group, more Amount) Rank {
	return e.sane(ask(e, "order", func() Rank { return e.grouper.RankGroup(e, g.name, more) }))
}

// sane is a rank that can be compared and reckoned with.
func (e *Engine) sane(r Rank) Rank {
	if math.IsNaN(r.Value) || math.IsInf(r.Value, 0) || math.IsNaN(r.Growth) || math.IsInf(r.Growth, 0) {
		e.wrong("order", fmt.Errorf("a rank of value %v that grows by %v", r.Value, r.Growth))
		return Rank{Tier: r.Tier}
	}
	if r.Until != 0 && r.Until <= e.now {
		e.wrong("order", fmt.Errorf("a rank that holds until %v, which is over", r.Until))
		r.Until = 0
	}
	return r
}

// rerank asks for a job's rank, and puts it where it belongs.
func (e *Engine) rerank(j *Job) {
	e.unqueue(j)
	j.rank = e.sane(ask(e, "order", func() Rank { return e.policies.Order.Rank(e, j) }))
	j.ranked = e.now
	if j.phase == Running {
		j.ranked = max(e.now, j.from)
	}
	j.asked++
	if j.rank.Until != 0 {
		e.until.Set(e.alarmFor(j, j.rank.Until, j.asked))
	}
	e.enqueue(j)
}

type clock = timers.Clock[*Job]

// alarmFor makes an alarm for a job, one of so many.
func (e *Engine) alarmFor(j *Job, at time.Duration, mark int) (a timers.Alarm[*Job], jobs int) {
	return timers.Alarm[*Job]{At: at, Subject: j, Number: int64(j.facts.ID), Mark: mark}, len(e.jobs)
}

// current reports whether an alarm is for the rank that its job has.
func current(a timers.Alarm[*Job]) bool { return a.Subject.phase != Ended && a.Subject.asked == a.Mark }

// ripening reports whether an alarm is for the run that its job is in, and the job is not ripe yet.
func ripening(a timers.Alarm[*Job]) bool {
	j := a.Subject
	return j.phase == Running && j.runs == a.Mark && j.ripe == a.At && !j.isRipe
}

// enqueue puts a job among those that wait, or among those that may be stopped.
func (e *Engine) enqueue(j *Job) {
	k := key{j.rank.Tier, j.rank.Value, j.facts.Submit, j.facts.ID}
	switch {
	case j.phase == Waiting:
		j.inQueue = j.group.waiting.add(&j.seats[0], k, j)
		j.shape.like.queued++
	case j.phase == Running && j.isRipe:
		j.series = j.group.seriesOf(j.rank.Growth)
		k.value = j.series.start(j)
		j.inSeries = j.series.jobs.add(&j.seats[0], k, j)
	}
}

// unqueue takes it out.
func (e *Engine) unqueue(j *Job) {
	if j.inQueue != nil {
		j.group.waiting.remove(j.inQueue)
		j.shape.like.queued--
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

// start is what the value of a job's rank would have been at time 0.
func (s *series) start(j *Job) float64 { return j.rank.Value - s.growth*j.ranked.Seconds() }

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

// want is what makes two jobs equal for a Placer.
type want struct {
	gpus, share    int
	fewest         int // that an elastic job can run on
	gpuType, model string
	memoryBytes    int64
}

type shape struct {
	bit    uint64
	fits   bool   // whether the whole cluster, were it free, would do
	failed uint64 // the number of the last walk that found no place for it
	least  int    // how many whole GPUs must be free before it is worth asking for a place
	like   *likes
	probe  *Job // one that wants it
}

// likes is all shapes that want the same GPUs, whatever their jobs compute: a Backfiller has one
// answer for them.
type likes struct {
	want
	probe   *Job
	queued  int           // how many such jobs wait
	longest time.Duration // that one may take if it starts now
}

// common is the bit of all shapes beyond the 63rd; it is never skipped.
const common = 1 << 63

func (e *Engine) shapeOf(j *Job) *shape {
	w := want{
		gpus: j.gpus, share: j.facts.Share, fewest: j.gpus,
		gpuType: j.facts.GPUType, model: j.facts.Model, memoryBytes: j.facts.GPUMemoryBytes,
	}
	if e.policies.Allocate != nil {
		w.fewest, _ = j.Bounds()
	}
	s := e.shapes[w]
	if s == nil {
		s = &shape{bit: common, least: j.least(), like: e.likesOf(w, j), probe: &Job{facts: j.facts, gpus: j.gpus}}
		if len(e.shapes) < 63 {
			s.bit = 1 << len(e.shapes)
		}
		s.fits = e.couldHold(s.probe, w.fewest)
		e.shapes[w] = s
	}
	return s
}

func (e *Engine) likesOf(w want, j *Job) *likes {
	w.model, w.fewest = "", 0
	for _, l := range e.likes {
		if l.want == w {
			return l
		}
	}
	l := &likes{want: w, probe: &Job{facts: j.facts, gpus: j.gpus}}
	e.likes = append(e.likes, l)
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

// least is how many whole GPUs must be free before it is worth asking for the job's place.
func (j *Job) least() int {
	if j.facts.Share < wholeGPU {
		return 0
	}
	return j.gpus
}

// left is how much longer a job without GPUs will take by its estimate.
func (j *Job) left() time.Duration { return max(0, j.facts.Estimate-j.done) }
