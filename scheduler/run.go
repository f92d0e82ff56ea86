package scheduler

import (
	"fmt"
	"time"

	"github.com/phos-gpu/phos/cluster"
)

// launch lets a waiting job run on GPUs that it can have.
func (e *Engine) launch(j *Job, on cluster.Placement, speed float64) {
	e.unqueue(j)
	e.waiting--
	j.account.wait(-1)
	e.free.take(on, j.facts.Share)
	ready := max(e.readyAt(on), j.saved)
	load := e.cost(func(c Costs) time.Duration { return c.Load(j, on) })
	if j.runs == 0 {
		j.first = e.now
	}
	j.phase, j.placement, j.since, j.from, j.speed = Running, on, e.now, ready+load, speed
	j.runs++
	j.account.hold(j, +1, e.now)
	e.follow(j)
	e.rerank(j)
	e.regroup(j)
	e.plan.Starts = append(e.plan.Starts, Start{
		Job: j.ID(), Run: j.runs, On: on, Ready: ready, Load: load, Done: j.done, Speed: speed,
	})
}

// follow expects a run's end, and the time from which it may be stopped.
func (e *Engine) follow(j *Job) {
	e.running.add(j)
	if e.policies.Backfill != nil {
		e.free.expect(j)
	}
	if !e.preempts && e.policies.Allocate == nil {
		return
	}
	j.ripe = j.from + e.policies.Quantum
	if share := e.policies.CostShare; share > 0 {
		save := e.cost(func(c Costs) time.Duration { return c.Save(j) })
		load := e.cost(func(c Costs) time.Duration { return c.Load(j, j.placement) })
		j.ripe = max(j.ripe, j.from+Span(save+load, share))
	}
	j.isRipe = false
	e.unqueue(j)
	e.ripe.Set(e.alarmFor(j, j.ripe, j.runs))
}

// Beyond these, a policy's answer is taken for a mistake: times could not be added up any more.
const (
	longestCost = 10_000 * time.Hour
	fastest     = 1e6
)

// cost asks for a cost. None is negative.
func (e *Engine) cost(of func(Costs) time.Duration) time.Duration {
	if e.policies.Costs == nil {
		return 0
	}
	cost := ask(e, "costs", func() time.Duration { return of(e.policies.Costs) })
	if cost < 0 || cost > longestCost {
		e.wrong("costs", fmt.Errorf("a cost of %v", cost))
		return 0
	}
	return cost
}

// speed is how fast a job would run, or 0 where it could not.
func (e *Engine) speed(j *Job, on cluster.Placement) float64 {
	if e.policies.Speeds == nil {
		return float64(len(on)) / float64(j.facts.GPUs)
	}
	speed := ask(e, "speeds", func() float64 { return e.policies.Speeds.Speed(j, on, e.nodes) })
	if !(speed >= 0) || speed > fastest {
		e.wrong("speeds", fmt.Errorf("a speed of %v for job %d", speed, j.ID()))
		return 0
	}
	return speed
}

// stop takes a running job's GPUs for somebody else, and says so in the plan.
func (e *Engine) stop(j *Job) {
	j.preemptions++
	if j.ousted != e.now {
		j.ousted, j.oustings = e.now, 0
	}
	j.oustings++
	e.plan.Stops = append(e.plan.Stops, Stop{Job: j.ID(), How: Checkpoint})
	e.release(j, Checkpoint)
}

// release makes a running job a waiting one.
func (e *Engine) release(j *Job, how How) {
	var save, lost time.Duration
	worked := Work(j.progress(e.now), j.speed)
	switch {
	case how == Checkpoint && e.now >= j.from:
		save = e.cost(func(c Costs) time.Duration { return c.Save(j) })
	case how == Kill && e.policies.Costs == nil:
		lost = worked
	case how == Kill:
		lost = min(worked, e.cost(func(c Costs) time.Duration { return c.Lost(j, e.now) }))
	}
	e.takeBack(j, save)
	e.free.agenda.surprises++ // even at the moment when it was due: it has to run again
	j.done -= lost
	j.phase = Waiting
	j.waitingSince, j.saved = e.now, e.now+save
	e.waiting++
	j.account.wait(+1)
	e.rerank(j)
	e.regroup(j)
}

// takeBack ends a run: it counts what came of it, and its GPUs are free once they have been saved.
func (e *Engine) takeBack(j *Job, save time.Duration) {
	e.unqueue(j)
	e.running.remove(j)
	if e.policies.Backfill != nil {
		e.free.forget(j, e.now)
	}
	j.account.hold(j, -1, e.now)
	ran := j.progress(e.now)
	j.attained += ran
	j.service += j.width(ran)
	j.done += Work(ran, j.speed)
	if !j.given {
		e.free.give(j.placement, j.facts.Share)
	}
	if save > 0 {
		e.busy(j.placement, e.now+save)
	}
	j.placement, j.speed, j.isRipe, j.only, j.given = nil, 0, false, "", false
}

// busy notes until when GPUs are being saved.
func (e *Engine) busy(on cluster.Placement, until time.Duration) {
	for _, gpu := range on {
		if e.ready[gpu.Node] == nil {
			e.ready[gpu.Node] = make([]time.Duration, e.nodes[gpu.Node].GPUs)
		}
		e.ready[gpu.Node][gpu.Index] = max(until, e.ready[gpu.Node][gpu.Index])
	}
}

// roster is the running jobs, the one that is due first first. Most schedulers start and stop jobs
// far more often than they ask who is due when: so a job gets its place in the order only when
// somebody asks.
type roster struct {
	byDue tree
	fresh []*Job // whose place nobody has asked for yet
}

func (r *roster) size() int { return r.byDue.size + len(r.fresh) }

func (r *roster) add(j *Job) {
	j.fresh = len(r.fresh)
	r.fresh = append(r.fresh, j)
}

func (r *roster) remove(j *Job) {
	if j.inDue != nil {
		r.byDue.remove(j.inDue)
		j.inDue = nil
		return
	}
	last := len(r.fresh) - 1
	r.fresh[j.fresh] = r.fresh[last]
	r.fresh[j.fresh].fresh = j.fresh
	r.fresh[last] = nil
	r.fresh = r.fresh[:last]
}

// sorted is all of them in order.
func (r *roster) sorted() *leaf {
	for _, j := range r.fresh {
		j.inDue = r.byDue.add(&j.seats[1], key{at: j.Due(), id: j.ID()}, j)
	}
	clear(r.fresh)
	r.fresh = r.fresh[:0]
	return r.byDue.root
}
