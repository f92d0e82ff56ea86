package scheduler

import (
	"fmt"
	"slices"
	"time"

	"github.com/phos-gpu/phos/scheduler/cluster"
	"github.com/phos-gpu/phos/scheduler/ranked"
)

// launch starts a waiting job on GPUs that are allocated to it.
func (e *Engine) launch(j *Job, on cluster.Placement, speed float64) {
	e.unqueue(j)
	e.waiting--
	j.account.countWaiting(-1)
	ready := max(e.readyAt(on), j.savedAt)
	load := e.cost(func(c Costs) time.Duration { return c.Load(j, on) })
	if j.runs == 0 {
		j.first = e.now
	}
	j.phase, j.placement, j.since, j.from, j.speed = Running, on, e.now, ready+load, speed
	j.runs++
	j.lastRun++
	j.run, j.shrunk = j.lastRun, shrinkage{}
	j.account.countRun(j, +1, e.now)
	e.trackRun(j)
	e.rerank(j)
	e.regroup(j)
	e.plan.Starts = append(e.plan.Starts, Start{
		Job: j.ID(), Run: j.run, On: on, Ready: ready, Load: load, Done: j.done, Speed: speed,
	})
}

// trackRun records a run's expected end and when the job becomes preemptible, if it ever does.
func (e *Engine) trackRun(j *Job) {
	e.running.add(j)
	if e.policies.Backfill != nil {
		e.free.expect(j)
	}
	if !e.preempts && e.policies.Allocate == nil {
		return
	}
	j.preemptibleAt = j.from + e.policies.Quantum
	if share := e.policies.CostShare; share > 0 {
		save := e.cost(func(c Costs) time.Duration { return c.Save(j) })
		load := e.cost(func(c Costs) time.Duration { return c.Load(j, j.placement) })
		j.preemptibleAt = max(j.preemptibleAt, j.from+Span(save+load, share))
	}
	j.preemptible = false
	e.unqueue(j)
	if !j.facts.Fixed {
		e.preemptTimers.Add(e.newTimer(j, j.preemptibleAt, j.run))
	}
}

// Larger answers of a policy are taken for mistakes: times could overflow.
const (
	longestCost = 10_000 * time.Hour
	fastest     = 1e6
)

// cost asks for a cost. The result is not negative.
func (e *Engine) cost(of func(Costs) time.Duration) time.Duration {
	if e.policies.Costs == nil {
		return 0
	}
	cost := callPolicy(e, "costs", func() time.Duration { return of(e.policies.Costs) })
	if cost < 0 || cost > longestCost {
		e.reportPolicy("costs", fmt.Errorf("a cost of %v", cost))
		return 0
	}
	return cost
}

// speed returns how fast a job would run; 0 means that it cannot.
func (e *Engine) speed(j *Job, on cluster.Placement) float64 {
	if e.policies.Speeds == nil {
		return float64(len(on)) / float64(j.facts.GPUs)
	}
	speed := callPolicy(e, "speeds", func() float64 { return e.policies.Speeds.Speed(j, on, e.nodes) })
	if !(speed >= 0) || speed > fastest {
		e.reportPolicy("speeds", fmt.Errorf("a speed of %v for job %d", speed, j.ID()))
		return 0
	}
	return speed
}

// stop preempts a running job and adds the stop to the plan.
func (e *Engine) stop(j *Job) {
	j.rememberRun(true)
	j.preemptions++
	if j.preemptedAt != e.now {
		j.preemptedAt, j.preemptionsAtOnce = e.now, 0
	}
	j.preemptionsAtOnce++
	e.plan.Stops = append(e.plan.Stops, Stop{Job: j.ID(), How: Checkpoint})
	e.requeue(j, Checkpoint)
}

// requeue makes a running job a waiting one.
func (e *Engine) requeue(j *Job, how How) {
	var save, lost time.Duration
	worked := Work(j.progress(e.now), j.speed) + j.shrunk.work
	switch {
	case how == Checkpoint && e.now >= j.from:
		save = e.cost(func(c Costs) time.Duration { return c.Save(j) })
	case how == Kill && e.policies.Costs == nil:
		lost = worked
	case how == Kill:
		lost = min(worked, e.cost(func(c Costs) time.Duration { return c.Lost(j, e.now) }))
	}
	e.endRun(j, save)
	e.free.expected.deviations++ // even if it was due now: it has to run again
	j.done -= lost
	j.waitingSince, j.savedAt = e.now, e.now+save
	e.wait(j)
}

// endRun ends a run and accounts for it. The GPUs are free once they have been saved.
func (e *Engine) endRun(j *Job, save time.Duration) {
	e.unqueue(j)
	e.running.remove(j)
	if e.policies.Backfill != nil {
		e.free.forget(j, e.now)
	}
	j.account.countRun(j, -1, e.now)
	ran := j.progress(e.now)
	j.attained += ran
	j.service += j.gpuTime(ran)
	j.done += Work(ran, j.speed)
	if !j.gpusReleased {
		e.free.release(j.placement, j.facts.Share)
	}
	if save > 0 {
		e.markCheckpointing(j.placement, e.now+save)
	}
	j.placement, j.speed, j.preemptible, j.allocatedType, j.gpusReleased = nil, 0, false, "", false
}

// stoppedRun is a run as it was when the engine stopped it.
type stoppedRun struct {
	run           int
	on            cluster.Placement
	since, from   time.Duration
	speed         float64
	shrunk        shrinkage
	allocatedType string
	preempted     bool // it counted as a preemption

	// Of the job, before that.
	attained, service, done, waitingSince time.Duration
}

// rememberRun notes a run that is about to be stopped: it may be Kept.
func (j *Job) rememberRun(preempted bool) {
	if j.stopped == nil {
		j.stopped = new(stoppedRun)
	}
	*j.stopped = stoppedRun{
		run: j.run, on: j.placement, since: j.since, from: j.from, speed: j.speed, shrunk: j.shrunk,
		allocatedType: j.allocatedType, preempted: preempted,
		attained: j.attained, service: j.service, done: j.done, waitingSince: j.waitingSince,
	}
}

// outcome is a job of which something else has become than the last plans said.
type outcome struct {
	*Engine
	job *Job
}

// keep lets a waiting job run on as the run that was stopped.
func (o outcome) keep(ev *Event) error {
	j, s := o.job, o.job.stopped
	if j.phase != Waiting || s == nil || ev.Run != 0 && ev.Run != s.run {
		return ErrNotStopped
	}
	on := s.on
	if len(ev.On) > 0 {
		on = ev.On
	}
	on, err := o.free.checkHeld(j, on)
	if err != nil {
		return err
	}
	o.unqueue(j)
	o.waiting--
	j.account.countWaiting(-1)
	j.phase, j.stopped = Running, nil
	j.run, j.placement, j.since, j.from, j.speed = s.run, s.on, s.since, s.from, s.speed
	j.attained, j.service, j.done, j.waitingSince = s.attained, s.service, s.done, s.waitingSince
	j.shrunk, j.allocatedType = s.shrunk, s.allocatedType
	if s.preempted {
		j.preemptions--
	}
	if s.speed == 0 { // an adopted job, whose run is not known
		j.placement, j.speed = on, o.speedOn(on)
	} else if !slices.Equal(on, j.placement) {
		o.changeGPUs(on)
	}
	o.runOn()
	return nil
}

// runOn counts a job that has GPUs which no plan has given it.
func (o outcome) runOn() {
	j := o.job
	o.free.allocate(j.placement, j.facts.Share)
	o.free.setBack()
	j.account.countRun(j, +1, o.now)
	o.trackRun(j)
	o.rerank(j)
	o.regroup(j)
	if o.observer != nil {
		o.observer.Continues(j, o.now)
	}
}

// refuse makes a job wait again as it did before its run.
func (o outcome) refuse() {
	j := o.job
	j.forgetShrinkage()
	attained, service, done := j.attained, j.service, j.done
	o.endRun(j, 0)
	o.free.expected.deviations++
	o.free.setBack()
	j.attained, j.service, j.done = attained, service, done
	j.runs--
	o.wait(j)
}

// shrinkage is by how much the sums over earlier runs exceed these, because the current run had
// more GPUs before. All times of the run are computed as if it had always had those that it has.
type shrinkage struct{ work, service time.Duration }

// forgetShrinkage makes the sums those over earlier runs again.
func (j *Job) forgetShrinkage() {
	j.done -= j.shrunk.work
	j.service -= j.shrunk.service
	j.shrunk = shrinkage{}
}

// shrink leaves a running job fewer GPUs.
func (o outcome) shrink(on cluster.Placement) error {
	j := o.job
	on = sortedCopy(on)
	gone := j.placement.Without(on)
	if len(on) == 0 || len(gone)+len(on) != len(j.placement) {
		return &PlanError{Job: j.ID(), Err: ErrGang}
	}
	if len(gone) == 0 {
		return nil
	}
	o.running.remove(j)
	o.free.release(gone, j.facts.Share)
	j.account.countRun(j, -1, o.now)
	o.changeGPUs(on)
	j.account.countRun(j, +1, o.now)
	o.running.add(j)
	if o.policies.Backfill != nil {
		o.free.expect(j)
	}
	o.rerank(j)
	o.regroup(j)
	if o.observer != nil {
		o.observer.Continues(j, o.now)
	}
	return nil
}

// changeGPUs gives a running job other GPUs in the middle of its run, without accounting for them.
func (o outcome) changeGPUs(on cluster.Placement) {
	j := o.job
	ran := j.progress(o.now)
	work, service := Work(ran, j.speed), j.gpuTime(ran)
	j.placement, j.speed = on, o.speedOn(on)
	more := shrinkage{work - Work(ran, j.speed), service - j.gpuTime(ran)}
	j.done += more.work
	j.service += more.service
	j.shrunk.work += more.work
	j.shrunk.service += more.service
}

// speedOn returns how fast the job runs on GPUs that it has, even if it should not be there.
func (o outcome) speedOn(on cluster.Placement) float64 {
	if speed := o.speed(o.job, on); speed > 0 {
		return speed
	}
	return float64(len(on)) / float64(o.job.facts.GPUs)
}

// markCheckpointing notes until when GPUs are being saved.
func (e *Engine) markCheckpointing(on cluster.Placement, until time.Duration) {
	for _, gpu := range on {
		if e.ready[gpu.Node] == nil {
			e.ready[gpu.Node] = make([]time.Duration, e.nodes[gpu.Node].GPUs)
		}
		e.ready[gpu.Node][gpu.Index] = max(until, e.ready[gpu.Node][gpu.Index])
	}
}

// runningSet is the running jobs, by Due. Most schedulers start and stop jobs far more often than
// they read this order, so new jobs are sorted in only when the order is read.
type runningSet struct {
	byDue    ranked.Tree[*Job]
	unsorted []*Job // not in byDue yet
}

func (r *runningSet) size() int { return r.byDue.Size + len(r.unsorted) }

func (r *runningSet) add(j *Job) {
	j.unsortedIndex = len(r.unsorted)
	r.unsorted = append(r.unsorted, j)
}

func (r *runningSet) remove(j *Job) {
	if j.inDue != nil {
		r.byDue.Remove(j.inDue)
		j.inDue = nil
		return
	}
	last := len(r.unsorted) - 1
	r.unsorted[j.unsortedIndex] = r.unsorted[last]
	r.unsorted[j.unsortedIndex].unsortedIndex = j.unsortedIndex
	r.unsorted[last] = nil
	r.unsorted = r.unsorted[:last]
}

// sorted returns the tree of all jobs by Due.
func (r *runningSet) sorted() *ranked.Tree[*Job] {
	for _, j := range r.unsorted {
		j.inDue = r.byDue.Add(&j.dueLeaf, ranked.Key{At: j.Due(), ID: int64(j.ID())}, j, j.content())
	}
	clear(r.unsorted)
	r.unsorted = r.unsorted[:0]
	return &r.byDue
}
