package scheduler

import (
	"cmp"
	"slices"
	"time"

	"github.com/phos-gpu/phos/cluster"
)

// inOrder sorts what happened at one time, so that it does not matter who told it first: arrivals
// by number, then what became of each job, then what became of each node. What is said of one job
// or of one node stays in its order.
func inOrder(events []Event) []Event {
	if len(events) < 2 {
		return events
	}
	sorted := slices.Clone(events)
	slices.SortStableFunc(sorted, func(a, b Event) int {
		return cmp.Or(cmp.Compare(a.class(), b.class()), cmp.Compare(a.number(), b.number()))
	})
	return sorted
}

func (ev *Event) class() int {
	switch ev.Kind {
	case Submitted:
		return 0
	case NodeDown, NodeUp, Drained:
		return 2
	default:
		return 1
	}
}

func (ev *Event) number() int64 {
	switch {
	case ev.Facts != nil:
		return int64(ev.Facts.ID)
	case ev.class() == 2:
		return int64(ev.Node)
	}
	return int64(ev.Job)
}

// take takes notice of an event.
func (e *Engine) take(ev *Event) error {
	switch ev.class() {
	case 0:
		return e.submit(ev.Facts)
	case 2:
		return e.change(ev)
	}
	j := e.jobs[ev.Job]
	if j == nil {
		return ErrUnknownJob
	}
	late := ev.Run != 0 && ev.Run != j.runs || j.phase != Running
	switch ev.Kind {
	case Working:
		if !late {
			e.working(j)
		}
	case Finished:
		e.end(j)
	case Failed:
		if !late {
			e.failed(j)
		}
	case Withdrawn:
		e.withdraw(j)
	default:
		return ErrBadFacts
	}
	return nil
}

func (e *Engine) submit(f *cluster.Job) error {
	if f == nil || !sound(f) {
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
	j.gpus = j.account.modest(&j.facts)
	j.shape = e.shapeOf(j)
	if !j.shape.fits {
		return ErrTooLarge
	}
	e.jobs[f.ID] = j
	e.hold(j)
	return nil
}

// working corrects what was expected of a run's beginning.
func (e *Engine) working(j *Job) {
	e.running.remove(j)
	j.from = e.now
	e.follow(j)
	e.rerank(j)
}

// failed lets a job be tried again, or not.
func (e *Engine) failed(j *Job) {
	j.failures++
	if j.failures > e.policies.Retries {
		e.withdraw(j)
		return
	}
	e.release(j, Kill)
}

// withdraw ends a job that has not finished.
func (e *Engine) withdraw(j *Job) {
	e.plan.Stops = append(e.plan.Stops, Stop{Job: j.ID(), How: Withdraw})
	e.end(j)
}

// end forgets a job.
func (e *Engine) end(j *Job) {
	switch j.phase {
	case Held:
		e.unhold(j)
	case Waiting:
		e.unqueue(j)
		e.waiting--
		j.account.wait(-1)
	case Running:
		e.takeBack(j, 0)
	case Ended:
	}
	if j.phase != Held {
		e.demand -= j.GPUs()
		j.account.ask(-j.GPUs())
	}
	held := j.phase == Held
	j.phase = Ended
	delete(e.jobs, j.ID())
	if !held {
		e.consult(j.lane)
		e.regroup(j)
	}
}

// change takes notice of what became of a node.
func (e *Engine) change(ev *Event) error {
	if ev.Kind == NodeUp && int(ev.Node) == len(e.nodes) && ev.Machine != nil && ev.Machine.ID == ev.Node {
		defer e.consultAll()
		return e.addNode(*ev.Machine)
	}
	if ev.Node < 0 || int(ev.Node) >= len(e.nodes) {
		return ErrBadNode
	}
	closed := e.free.closed[ev.Node]
	if ev.Kind == NodeUp {
		return e.reopen(ev, closed)
	}
	if !closed {
		e.free.close(ev.Node, true)
		e.capacity.add(capacity(&e.nodes[ev.Node]), -1)
	}
	how := Kill
	if ev.Kind == Drained {
		how = Checkpoint
	}
	for _, j := range e.on(ev.Node) {
		e.plan.Stops = append(e.plan.Stops, Stop{Job: j.ID(), How: how})
		e.release(j, how)
	}
	e.consultAll()
	return nil
}

// on are the jobs that have a GPU of a node.
func (e *Engine) on(node cluster.NodeID) []*Job {
	var jobs []*Job
	for j := range e.Running() {
		if slices.ContainsFunc(j.placement, func(gpu cluster.GPU) bool { return gpu.Node == node }) {
			jobs = append(jobs, j)
		}
	}
	return jobs
}

func (e *Engine) reopen(ev *Event, closed bool) error {
	if !closed || ev.Machine != nil && (ev.Machine.ID != ev.Node || !fitting(ev.Machine)) {
		return ErrBadNode
	}
	if ev.Machine != nil {
		e.free.replace(*ev.Machine)
		e.nodes[ev.Node] = *ev.Machine
		e.ready[ev.Node] = nil
		e.reshape()
	}
	e.free.close(ev.Node, false)
	e.capacity.add(capacity(&e.nodes[ev.Node]), +1)
	e.consultAll()
	return nil
}

func fitting(node *cluster.Node) bool { return node.GPUs >= 0 && node.GPUs <= MaxGPUsPerNode }

func (e *Engine) addNode(node cluster.Node) error {
	if !fitting(&node) {
		return ErrBadNode
	}
	e.nodes = append(e.nodes, node)
	e.free.add(node)
	e.ready = append(e.ready, nil)
	e.capacity.add(capacity(&node), +1)
	e.reshape()
	return nil
}

// reshape asks again which jobs the cluster could hold, after it grew or changed.
func (e *Engine) reshape() {
	for w, s := range e.shapes {
		s.fits = e.couldHold(s.probe, w.fewest)
	}
}

// readyAt is when the last of a placement's GPUs is free.
func (e *Engine) readyAt(on cluster.Placement) time.Duration {
	at := e.now
	for _, gpu := range on {
		if times := e.ready[gpu.Node]; times != nil {
			at = max(at, times[gpu.Index])
		}
	}
	return at
}
