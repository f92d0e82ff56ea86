package control

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/phos-gpu/phos/cluster/control/backlog"
	"github.com/phos-gpu/phos/cluster/control/decisions"
	"github.com/phos-gpu/phos/cluster/control/fit"
	"github.com/phos-gpu/phos/cluster/launch"
	"github.com/phos-gpu/phos/scheduler"
	"github.com/phos-gpu/phos/scheduler/cluster"
	"github.com/phos-gpu/phos/scheduler/live"
)

// queue is a scheduler with what it schedules. There are two: one gives GPUs, and one gives places
// on nodes to launches without GPUs. The fields belong to the leader's goroutine; the scheduler's
// loop has a goroutine of its own, which is told of events by mail and tells the leader its
// plans by turns.
type queue struct {
	leader *Leader
	name   string
	gpus   bool
	parts  map[cluster.JobID]*part
	next   map[*entry]int // the number of the next job of a launch
	// starting are the parts that wait for their places to become free.
	starting map[*part]struct{}
	placer   *fit.Placer
	// grown means that the scheduler gets nodes with the next flush. growths counts such flushes.
	grown   bool
	growths int
	loop    *live.Loop
	log     *decisions.Log // nil: none is kept
	// mail passes events on once what they are about is in the store, and the placer has a new table.
	// The leader must never wait for the loop, as that may be waiting for the leader.
	mail *backlog.Pipe[scheduler.Event]
}

// newQueue returns a queue without nodes and jobs.
func newQueue(l *Leader, name string, gpus bool) (*queue, error) {
	q := &queue{
		leader: l, name: name, gpus: gpus, parts: map[cluster.JobID]*part{},
		next: map[*entry]int{}, starting: map[*part]struct{}{}, mail: backlog.NewPipe[scheduler.Event](),
	}
	policies, err := l.settings.Policies()
	if err != nil {
		return nil, err
	}
	q.placer = fit.NewPlacer(l.settings.Placement)
	policies.Place = q.placer
	engine, err := scheduler.New(nil, policies)
	if err != nil {
		return nil, err
	}
	q.loop = &live.Loop{
		Engine: engine, Executor: q, Clock: l.clock, Requests: q.mail.Out(),
		Report: func(err error) { l.turns.Add(func() { q.report(err) }) },
		Log:    q.stepped,
	}
	q.keepLog(engine)
	return q, nil
}

// keepLog has the decisions of the scheduler of GPUs logged, if there is room. A launch without
// GPUs has no place that a simulation knows.
func (q *queue) keepLog(engine *scheduler.Engine) {
	l := q.leader
	if !q.gpus || l.settings.Decisions == "" {
		return
	}
	of := decisions.Leadership{Epoch: l.Epoch(), Began: l.cluster.Created, Policies: l.settings.Scheduler}
	log, err := decisions.Begin(l.settings.Decisions, of, engine, l.log)
	if err != nil { // launches are scheduled without a log
		l.log.Warn("decisions are not logged", "error", err)
	}
	q.log = log
}

// run runs the scheduler until the context ends, or ends the leader if the scheduler fails.
func (q *queue) run(ctx context.Context, fail context.CancelCauseFunc) {
	if q.log != nil {
		defer q.log.Close()
	}
	go q.mail.Run(ctx)
	if err := q.loop.Run(ctx); ctx.Err() == nil {
		fail(fmt.Errorf("scheduler of %s: %w", q.name, err))
	}
}

// Apply hands a plan to the leader. It is called by the scheduler's loop.
func (q *queue) Apply(_ context.Context, plan scheduler.Plan) error {
	q.leader.turns.Add(func() { q.leader.carryOut(q, plan) })
	return nil
}

// Events returns a channel on which nothing comes: all events come by mail.
func (q *queue) Events() <-chan scheduler.Event { return nil }

// report handles what the scheduler has refused. Parts that are larger than all its nodes together
// wait for more nodes.
func (q *queue) report(err error) {
	var several interface{ Unwrap() []error }
	if errors.As(err, &several) {
		for _, each := range several.Unwrap() {
			q.report(each)
		}
		return
	}
	var refused *scheduler.EventError
	if !errors.As(err, &refused) || !q.reconsider(refused) {
		q.leader.log.Warn("scheduler ignored an event", "queue", q.name, "error", err)
	}
}

// reconsider handles an event that the scheduler has refused because of what it did not know yet,
// and reports whether it could. By now the leader has all plans that the scheduler had made before.
func (q *queue) reconsider(refused *scheduler.EventError) bool {
	switch event := &refused.Event; event.Kind {
	case scheduler.Submitted:
		if !errors.Is(refused, scheduler.ErrTooLarge) {
			return false
		}
		if p := q.parts[event.Facts.ID]; p != nil && !q.retry(p) {
			p.tooLarge = true
			if q.placer.RefusesToWait(p.id) {
				q.leader.noRoom(q, p.id, nil)
			}
		}
		return true
	case scheduler.Adopted: // it has given the place to another part
		p := q.parts[event.Job]
		return p != nil && p.assigned != nil && q.insist(p)
	default:
		return false
	}
}

// flush lets the scheduler have what was posted. If nodes are among that, it is told again of parts
// that were larger than all its nodes together.
func (q *queue) flush() {
	if q.grown {
		q.grown = false
		q.growths++
		q.resubmit()
	}
	q.mail.Flush()
}

// resubmit tells the scheduler again of parts that were larger than all its nodes together.
func (q *queue) resubmit() {
	for _, p := range q.parts {
		if p.tooLarge {
			p.tooLarge = !q.retry(p)
		}
	}
}

// maxTries is how often a part is submitted after the scheduler has got nodes. One that arrives
// together with a node is refused before the node counts; the next one comes later than that.
const maxTries = 2

// retry submits a part again, unless it was refused for all nodes that the scheduler has got.
func (q *queue) retry(p *part) bool {
	if p.growths != q.growths {
		p.growths, p.tries = q.growths, 0
	}
	if p.tries == maxTries {
		return false
	}
	p.tries++
	facts := q.facts(p, p.need())
	q.mail.Post(scheduler.Event{Kind: scheduler.Submitted, Facts: &facts})
	return true
}

// startable returns the parts that wait for their places to become free, the oldest first.
func (q *queue) startable() []*part {
	return slices.SortedFunc(maps.Keys(q.starting), func(a, b *part) int { return int(a.id - b.id) })
}

// submit tells the scheduler of a part.
func (q *queue) submit(p *part) {
	p.id = q.newID(p.entry)
	q.parts[p.id] = p
	need := p.need()
	q.placer.Keep(p.id, need)
	facts := q.facts(p, need)
	q.mail.Post(scheduler.Event{Kind: scheduler.Submitted, Facts: &facts})
}

// newID returns the number of a new job: jobs of an earlier launch have lower numbers.
func (q *queue) newID(e *entry) cluster.JobID {
	q.next[e]++
	return cluster.JobID(e.Number)<<20 | cluster.JobID(q.next[e]&(1<<20-1))
}

// facts describes a part to the scheduler.
func (q *queue) facts(p *part, need fit.Need) cluster.Job {
	spec := &p.entry.State.Spec
	return cluster.Job{
		ID: p.id, Name: p.entry.Label(), Submit: q.leader.clock.Since(p.entry.Submitted),
		Estimate: time.Duration(spec.TimeLimit), GPUs: need.Units(q.gpus), Share: cluster.WholeGPU,
		GPUType: q.onlyType(need), Constraint: need.Constraint(), User: p.entry.Owner, Priority: spec.Priority,
		Fixed: p.entry.fixed(),
	}
}

// drop tells the scheduler that a part is over, and gives its place back.
func (q *queue) drop(p *part) {
	delete(q.parts, p.id)
	delete(q.starting, p)
	q.placer.Forget(p.id)
	q.mail.Post(scheduler.Event{Kind: scheduler.Finished, Job: p.id})
}

// shrink gives back what a part no longer needs of its place.
func (q *queue) shrink(p *part, left []launch.Assignment) {
	var keep cluster.Placement
	for replica, units := range p.units {
		if slices.ContainsFunc(left, func(a launch.Assignment) bool { return a.Replica == replica }) {
			keep = append(keep, units...)
		} else {
			delete(p.units, replica)
		}
	}
	slices.SortFunc(keep, fit.CompareGPUs)
	if slices.Equal(keep, p.on) {
		p.assigned = left // what has ended had no GPUs
		return
	}
	p.assigned, p.on = left, keep
	q.mail.Post(scheduler.Event{Kind: scheduler.Shrunk, Job: p.id, Run: p.run, On: keep})
}

// refuse tells the scheduler that a place could not be taken.
func (q *queue) refuse(p *part) {
	q.mail.Post(scheduler.Event{Kind: scheduler.Refused, Job: p.id, Run: p.run})
}
