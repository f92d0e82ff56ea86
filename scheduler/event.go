package scheduler

import (
	"cmp"
	"slices"
	"time"

	"github.com/phos-gpu/phos/scheduler/cluster"
)

// eventKey orders simultaneous events.
type eventKey struct {
	category int
	submit   time.Duration // of jobs that claim GPUs
	subject  int64         // the job's or the node's number
	at       int           // the index among the events
}

// The categories of events, in the order in which they are handled.
const (
	joins    = iota // new nodes, if a job that claims GPUs may be there
	arrivals        // of new jobs
	ofJobs
	claims // of jobs that have GPUs which the engine has not given them: they may be others' so far
	ofNodes
)

// batch is the events of a step, in the order in which they are handled.
type batch struct {
	engine *Engine
	events []Event
	keys   []eventKey
}

// sort sorts simultaneous events by their keys, so that the order in which they were reported does
// not matter: arrivals by number, then events of each job, then events of each node. Events of one
// job or node keep their order.
func (b *batch) sort() {
	claimed := false
	for i := range b.events {
		claimed = claimed || b.events[i].claims()
	}
	for i := range b.events {
		b.keys = append(b.keys, eventKey{category: b.events[i].category(), subject: b.events[i].subject(), at: i})
		if claimed {
			b.putClaim()
		}
	}
	slices.SortFunc(b.keys, func(a, b eventKey) int {
		return cmp.Or(
			cmp.Compare(a.category, b.category),
			cmp.Compare(a.submit, b.submit),
			cmp.Compare(a.subject, b.subject),
			cmp.Compare(a.at, b.at),
		)
	})
}

// putClaim moves the last event behind those that release GPUs, if its job claims some there or
// before. A new node comes first: the job may be on it.
func (b *batch) putClaim() {
	last := &b.keys[len(b.keys)-1]
	ev := &b.events[last.at]
	switch {
	case ev.Kind == NodeUp && int(ev.Node) >= len(b.engine.nodes) && !b.joins(last.subject):
		last.category = joins
	case ev.Kind == Adopted && ev.State != nil:
		last.category, last.submit = claims, ev.State.Submit
	case ev.Kind == Kept:
		last.category = claims
		if j := b.engine.jobs[ev.Job]; j != nil {
			last.submit = j.facts.Submit
		}
	case last.category == ofJobs:
		for _, k := range b.keys[:last.at] {
			if k.category == claims && k.subject == last.subject {
				last.category, last.submit = claims, k.submit
			}
		}
	}
}

// joins reports whether the batch has an event by which a node is new.
func (b *batch) joins(node int64) bool {
	return slices.ContainsFunc(b.keys, func(k eventKey) bool { return k.category == joins && k.subject == node })
}

// claims reports whether a job has GPUs that the engine has not given it.
func (ev *Event) claims() bool { return ev.Kind == Adopted || ev.Kind == Kept }

// category returns the category of the event of itself.
func (ev *Event) category() int {
	switch ev.Kind {
	case Submitted:
		return arrivals
	case NodeDown, NodeUp, Drained, Cordoned, Occupied, Vacated:
		return ofNodes
	default:
		return ofJobs
	}
}

// subject returns the number of the job or node.
func (ev *Event) subject() int64 {
	switch {
	case ev.Facts != nil:
		return int64(ev.Facts.ID)
	case ev.State != nil:
		return int64(ev.State.ID)
	case ev.category() == ofNodes:
		return int64(ev.Node)
	}
	return int64(ev.Job)
}

// handleAll applies the events of a step, and reports those that were refused.
func (e *Engine) handleAll(events []Event) {
	var one [1]eventKey // the most frequent case needs no memory and no order
	b := batch{engine: e, events: events, keys: one[:min(len(events), 1)]}
	if len(events) > 1 {
		b.keys = make([]eventKey, 0, len(events))
		b.sort()
	}
	for _, k := range b.keys {
		err := e.handle(&events[k.at])
		if err != nil {
			e.errs = append(e.errs, &EventError{events[k.at], k.at, err})
		}
		if e.observer != nil {
			e.observer.Handled(k.at, err)
		}
	}
}

// handle applies an event.
func (e *Engine) handle(ev *Event) error {
	switch {
	case ev.Kind == Submitted:
		return e.submit(ev.Facts)
	case ev.Kind == Adopted:
		return e.adopt(ev.State)
	case ev.category() == ofNodes:
		capacity := e.capacity
		err := e.changeNode(ev)
		if e.grouper != nil && e.capacity != capacity {
			rankGroups(e, slices.Clone(e.groups)) // shares of the cluster are others now
		}
		return err
	}
	j := e.jobs[ev.Job]
	if j == nil {
		return ErrUnknownJob
	}
	return e.handleJob(j, ev)
}

// handleJob applies an event of a job.
func (e *Engine) handleJob(j *Job, ev *Event) error {
	late := ev.Run != 0 && ev.Run != j.run || j.phase != Running
	switch ev.Kind {
	case Finished:
		e.endJob(j)
		return nil
	case Withdrawn:
		e.withdraw(j)
		return nil
	case Kept:
		return outcome{e, j}.keep(ev)
	case Working, Failed, Shrunk, Refused:
	default:
		return ErrBadFacts
	}
	if late {
		return nil
	}
	switch ev.Kind {
	case Working:
		e.jobWorking(j)
	case Failed:
		e.jobFailed(j)
	case Refused:
		outcome{e, j}.refuse()
	default:
		return outcome{e, j}.shrink(ev.On)
	}
	return nil
}

// submit adds a job and requests its admission.
func (e *Engine) submit(f *cluster.Job) error {
	if f == nil || !validJob(f) {
		return ErrBadFacts
	}
	if e.jobs[f.ID] != nil {
		return ErrDuplicate
	}
	j := &Job{facts: *f, waitingSince: e.now}
	if j.facts.Share == 0 {
		j.facts.Share = wholeGPU
	}
	e.prepare(j)
	if !j.shape.fits {
		return ErrTooLarge
	}
	e.jobs[f.ID] = j
	e.enqueueHeld(j)
	return nil
}

// prepare sets what follows from a job's description.
func (e *Engine) prepare(j *Job) {
	j.account = e.account(j.facts.User)
	j.gpus = e.policies.initialGPUs(&j.facts)
	j.shape = e.shapeOf(j)
}

// jobWorking corrects the expected start of a run's work.
func (e *Engine) jobWorking(j *Job) {
	e.running.remove(j)
	j.forgetShrinkage()
	j.from = e.now
	e.trackRun(j)
	e.rerank(j)
}

// jobFailed puts a failed job back in the queue, or withdraws it after too many failures.
func (e *Engine) jobFailed(j *Job) {
	j.failures++
	if j.failures > e.policies.Retries {
		e.withdraw(j)
		return
	}
	e.requeue(j, Kill)
	j.stopped = nil
}

// withdraw ends a job that has not finished.
func (e *Engine) withdraw(j *Job) {
	e.plan.Stops = append(e.plan.Stops, Stop{Job: j.ID(), How: Withdraw})
	e.endJob(j)
}

// endJob removes a job.
func (e *Engine) endJob(j *Job) {
	switch j.phase {
	case Held:
		e.dequeueHeld(j)
	case Waiting:
		e.unqueue(j)
		e.waiting--
		j.account.countWaiting(-1)
	case Running:
		e.endRun(j, 0)
	case Ended:
	}
	if j.phase != Held {
		e.demand -= j.GPUs()
		j.account.addDemand(-j.GPUs())
	}
	held := j.phase == Held
	j.phase = Ended
	delete(e.jobs, j.ID())
	if !held {
		e.requestAdmission(j.tenantQueue)
		e.regroup(j)
	}
}
