package control

import (
	"slices"

	"github.com/phos-gpu/phos/cluster/control/fit"
	"github.com/phos-gpu/phos/cluster/launch"
	"github.com/phos-gpu/phos/cluster/metrics"
	"github.com/phos-gpu/phos/scheduler"
	"github.com/phos-gpu/phos/scheduler/cluster"
)

// part is what the scheduler places at once: the replicas of a launch that start together, or one
// that joins later. It is a job of the scheduler.
type part struct {
	entry    *entry
	queue    *queue
	id       cluster.JobID
	replicas []int
	// run is the scheduler's number of the placement that it has now.
	run int
	// assigned is where its replicas are, or will be; nil: the scheduler has given it no place. on
	// is the same as the scheduler numbers it, and units are those of each replica.
	assigned []launch.Assignment
	on       cluster.Placement
	units    map[int][]cluster.GPU
	// starting means that the place is not free yet, or the launch not ready for it.
	starting bool
	// binding names the images from which its replicas start, and so where it can be placed.
	binding string
	// tooLarge means that the scheduler has too few nodes for it, even if they were empty.
	tooLarge bool
	// tries counts how often it was submitted again since the queue has grown, and growths says when
	// that was.
	tries, growths int
}

// lose notes that the scheduler has taken the part's place.
func (p *part) lose() {
	p.assigned, p.on, p.units = nil, nil, nil
	p.await(false)
}

// await notes whether the part waits for its place to become free.
func (p *part) await(waits bool) {
	p.starting = waits
	if waits {
		p.queue.starting[p] = struct{}{}
	} else {
		delete(p.queue.starting, p)
	}
}

// need returns what the part wants of nodes.
func (p *part) need() fit.Need {
	n := fit.NeedOf(p.entry.ID, &p.entry.State, p.replicas)
	p.entry.bind(&n)
	return n
}

// gang is the number of the part that starts together. A replica that joins later is part
// replica+1.
const gang = 0

// syncParts makes the scheduler's jobs those that the launch's state asks for.
func (l *Leader) syncParts(e *entry) {
	switch e.State.Phase {
	case launch.Queued:
		l.wantGang(e, e.State.Pending().Together)
	case launch.Running:
		l.shrinkParts(e)
		for _, replica := range e.State.Pending().Single {
			if e.parts[replica+1] == nil {
				l.submit(e, replica+1, []int{replica})
			}
		}
	case launch.Ended, launch.Suspended, launch.Waiting:
		for number := range e.parts {
			l.drop(e, number)
		}
	case launch.Stopping: // its places are its own until no process is left
	}
	l.mayStart = true
}

// wantGang has the replicas that start together placed. If they have just been stopped to start
// again and still have their places, they start there.
func (l *Leader) wantGang(e *entry, replicas []int) {
	for number, p := range e.parts {
		if number != gang || !slices.Equal(p.replicas, replicas) || p.binding != e.binding(replicas, l.nodes) {
			l.drop(e, number)
		}
	}
	p := e.parts[gang]
	switch {
	case p == nil:
		l.submit(e, gang, replicas)
	case p.assigned != nil:
		p.await(true)
	}
}

// shrinkParts gives back the places of replicas that have ended or left.
func (l *Leader) shrinkParts(e *entry) {
	for number, p := range e.parts {
		if p.assigned == nil || p.starting {
			continue
		}
		left := slices.DeleteFunc(slices.Clone(p.assigned), func(a launch.Assignment) bool {
			return !e.State.Replicas[a.Replica].Live
		})
		switch {
		case len(left) == 0:
			l.drop(e, number)
		case len(left) < len(p.assigned):
			p.queue.shrink(p, left)
			l.quotas.stale = true
		}
	}
}

// submit gives the scheduler a new job.
func (l *Leader) submit(e *entry, number int, replicas []int) {
	p := &part{entry: e, queue: l.queueFor(e), replicas: replicas, binding: e.binding(replicas, l.nodes)}
	if e.parts == nil {
		e.parts = map[int]*part{}
	}
	e.parts[number] = p
	if !l.hold(p) {
		p.queue.submit(p)
	}
}

// drop takes a job away from the scheduler.
func (l *Leader) drop(e *entry, number int) {
	p := e.parts[number]
	delete(e.parts, number)
	l.quotas.stale = true
	if _, held := l.quotas.held[p]; held {
		delete(l.quotas.held, p)
		return
	}
	p.queue.drop(p)
}

// carryOut does what the scheduler has decided.
func (l *Leader) carryOut(q *queue, plan scheduler.Plan) {
	var kept []*entry
	for _, stop := range plan.Stops {
		if p := q.parts[stop.Job]; p != nil && stop.How == scheduler.Checkpoint && !l.preempt(p) {
			kept = append(kept, p.entry)
		}
	}
	for _, start := range plan.Starts {
		p := q.parts[start.Job]
		if p == nil {
			continue // it was dropped since
		}
		p.run, p.on = start.Run, start.On
		p.await(true)
		p.assigned, p.units = q.placer.Answer(p.id, start.On) // without assignments it cannot start
	}
	for _, e := range kept {
		e.kept = true
		l.keepPlaces(e)
	}
	l.mayStart = true
}

// preempt takes the place of a part, which the scheduler has queued again. It reports false if the
// part keeps its place, because its launch can be neither saved nor started again.
func (l *Leader) preempt(p *part) bool {
	if p.starting || p.assigned == nil || p.entry.State.Phase == launch.Stopping {
		p.lose()
		return true
	}
	if err := l.giveWay(p.entry, launch.OnPreempt, launch.Preempted{Reason: "preempted by the scheduler"}); err != nil {
		l.settings.Numbers.Attempted(metrics.Kept)
		return false
	}
	l.settings.Numbers.Attempted(metrics.Preempted)
	p.lose()
	return true
}

// tryStarts starts the parts whose places have become free, after the turns that may have freed
// them.
func (l *Leader) tryStarts() {
	for l.mayStart {
		l.mayStart = false
		for _, q := range l.queues {
			for _, p := range q.startable() {
				if p.starting && l.canStart(p) {
					l.start(p)
				}
			}
		}
	}
}

// canStart reports whether a part's launch is ready, and its place free.
func (l *Leader) canStart(p *part) bool {
	phase := p.entry.State.Phase
	if phase != launch.Queued && phase != launch.Running || p == p.entry.parts[gang] && phase == launch.Running {
		return false
	}
	for _, a := range p.assigned {
		r := &p.entry.State.Replicas[a.Replica]
		if r.Live || l.gpusTaken(a) {
			return false
		}
	}
	return true
}

// gpusTaken reports whether processes may still use GPUs of a place.
func (l *Leader) gpusTaken(a launch.Assignment) bool {
	n := l.nodes[a.Node]
	if n == nil {
		return false
	}
	for _, r := range n.live {
		if slices.ContainsFunc(r.gpus, func(gpu int) bool { return slices.Contains(a.GPUs, gpu) }) {
			return true
		}
	}
	return false
}

// start places a part, if its nodes can still take it.
func (l *Leader) start(p *part) {
	p.await(false)
	assigned, err := l.reserve(p)
	if err == nil {
		err = l.apply(p.entry, launch.Placed{Assignments: assigned})
	}
	if err != nil {
		l.log.Warn("place refused", "launch", p.entry.ID, "error", err)
		l.settings.Numbers.Attempted(metrics.Refused)
		p.lose()
		p.queue.refuse(p)
		return
	}
	l.settings.Numbers.Attempted(metrics.Placed)
}
