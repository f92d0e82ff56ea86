package scheduler

import (
	"cmp"
	"slices"
	"time"

	"github.com/phos-gpu/phos/cluster"
)

// sortEvents sorts simultaneous events, so that the order in which they were reported does not
// matter: arrivals by number, then events of each job, then events of each node. Events of one job
// or node keep their order.
func sortEvents(events []Event) []Event {
	if len(events) < 2 {
		return events
	}
	sorted := slices.Clone(events)
	slices.SortStableFunc(sorted, func(a, b Event) int {
		return cmp.Or(cmp.Compare(a.category(), b.category()), cmp.Compare(a.subject(), b.subject()))
	})
	return sorted
}

// category returns 0 for arrivals, 1 for events of jobs, 2 for events of nodes.
func (ev *Event) category() int {
	switch ev.Kind {
	case Submitted:
		return 0
	case NodeDown, NodeUp, Drained:
		return 2
	default:
		return 1
	}
}

// subject returns the number of the job or node.
func (ev *Event) subject() int64 {
	switch {
	case ev.Facts != nil:
		return int64(ev.Facts.ID)
	case ev.category() == 2:
		return int64(ev.Node)
	}
	return int64(ev.Job)
}

// handle applies an event.
func (e *Engine) handle(ev *Event) error {
	switch ev.category() {
	case 0:
		return e.submit(ev.Facts)
	case 2:
		return e.changeNode(ev)
	}
	j := e.jobs[ev.Job]
	if j == nil {
		return ErrUnknownJob
	}
	late := ev.Run != 0 && ev.Run != j.runs || j.phase != Running
	switch ev.Kind {
	case Working:
		if !late {
			e.jobWorking(j)
		}
	case Finished:
		e.endJob(j)
	case Failed:
		if !late {
			e.jobFailed(j)
		}
	case Withdrawn:
		e.withdraw(j)
	default:
		return ErrBadFacts
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
	j.account = e.account(f.User)
	j.gpus = j.account.initialGPUs(&j.facts)
	j.shape = e.shapeOf(j)
	if !j.shape.fits {
		return ErrTooLarge
	}
	e.jobs[f.ID] = j
	e.enqueueHeld(j)
	return nil
}

// jobWorking corrects the expected start of a run's work.
func (e *Engine) jobWorking(j *Job) {
	e.running.remove(j)
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

// changeNode applies an event of a node.
func (e *Engine) changeNode(ev *Event) error {
	if ev.Kind == NodeUp && int(ev.Node) == len(e.nodes) && ev.Machine != nil && ev.Machine.ID == ev.Node {
		defer e.requestAllAdmissions()
		return e.addNode(*ev.Machine)
	}
	if ev.Node < 0 || int(ev.Node) >= len(e.nodes) {
		return ErrBadNode
	}
	closed := e.free.closed[ev.Node]
	if ev.Kind == NodeUp {
		return e.reopenNode(ev, closed)
	}
	if !closed {
		e.free.setClosed(ev.Node, true)
		e.capacity.add(capacity(&e.nodes[ev.Node]), -1)
	}
	how := Kill
	if ev.Kind == Drained {
		how = Checkpoint
	}
	for _, j := range e.jobsOn(ev.Node) {
		e.plan.Stops = append(e.plan.Stops, Stop{Job: j.ID(), How: how})
		e.requeue(j, how)
	}
	e.requestAllAdmissions()
	return nil
}

// jobsOn returns the jobs that have a GPU of a node.
func (e *Engine) jobsOn(node cluster.NodeID) []*Job {
	var jobs []*Job
	for j := range e.Running() {
		if slices.ContainsFunc(j.placement, func(gpu cluster.GPU) bool { return gpu.Node == node }) {
			jobs = append(jobs, j)
		}
	}
	return jobs
}

// reopenNode makes a closed node available again, with new properties if the event has them.
func (e *Engine) reopenNode(ev *Event, closed bool) error {
	if !closed || ev.Machine != nil && (ev.Machine.ID != ev.Node || !validNode(ev.Machine)) {
		return ErrBadNode
	}
	if ev.Machine != nil {
		e.free.replace(*ev.Machine)
		e.nodes[ev.Node] = *ev.Machine
		e.ready[ev.Node] = nil
		e.updateFits()
	}
	e.free.setClosed(ev.Node, false)
	e.capacity.add(capacity(&e.nodes[ev.Node]), +1)
	e.requestAllAdmissions()
	return nil
}

// validNode reports whether a node's number of GPUs is allowed.
func validNode(node *cluster.Node) bool { return node.GPUs >= 0 && node.GPUs <= MaxGPUsPerNode }

// addNode adds a new node to the cluster.
func (e *Engine) addNode(node cluster.Node) error {
	if !validNode(&node) {
		return ErrBadNode
	}
	e.nodes = append(e.nodes, node)
	e.free.add(node)
	e.ready = append(e.ready, nil)
	e.capacity.add(capacity(&node), +1)
	e.updateFits()
	return nil
}

// updateFits computes again which shapes the cluster could hold, after it grew or changed.
func (e *Engine) updateFits() {
	for w, s := range e.shapes {
		s.fits = e.couldHold(s.probe, w.fewest)
	}
}

// readyAt returns when the last of a placement's GPUs is free.
func (e *Engine) readyAt(on cluster.Placement) time.Duration {
	at := e.now
	for _, gpu := range on {
		if times := e.ready[gpu.Node]; times != nil {
			at = max(at, times[gpu.Index])
		}
	}
	return at
}
