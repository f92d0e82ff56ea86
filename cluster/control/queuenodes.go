package control

import (
	"fmt"
	"maps"
	"slices"

	"github.com/phos-gpu/phos/cluster/control/fit"
	"github.com/phos-gpu/phos/cluster/launch"
	"github.com/phos-gpu/phos/cluster/record"
	"github.com/phos-gpu/phos/scheduler"
	"github.com/phos-gpu/phos/scheduler/cluster"
)

// startQueues makes the schedulers, and tells them of all nodes and launches.
func (l *Leader) startQueues() error {
	for _, each := range []struct {
		name string
		gpus bool
	}{{"gpus", true}, {"no gpus", false}} {
		q, err := newQueue(l, each.name, each.gpus)
		if err != nil {
			return fmt.Errorf("scheduler: %w", err)
		}
		l.queues = append(l.queues, q)
	}
	for _, name := range slices.Sorted(maps.Keys(l.nodes)) {
		l.introduce(l.nodes[name])
	}
	for _, number := range slices.Sorted(maps.Keys(l.numbers)) {
		l.resume(l.numbers[number])
	}
	return nil
}

// introduce gives a node its number, and tells the schedulers of it. It is closed.
func (l *Leader) introduce(n *node) {
	n.id, n.introduced = l.tables.add(n.Name), true
	for _, q := range l.queues {
		machine := q.machine(n)
		q.mail.Post(scheduler.Event{Kind: scheduler.NodeUp, Node: n.id, Machine: &machine})
		q.mail.Post(scheduler.Event{Kind: scheduler.Cordoned, Node: n.id})
		q.grown = true
	}
	l.factsChanged(n)
}

// machine describes a node to a scheduler.
func (q *queue) machine(n *node) cluster.Node {
	m := cluster.Node{ID: n.id, Name: n.Name, GPUs: fit.Slots}
	if !q.gpus {
		return m
	}
	m.GPUs, m.Rack = min(len(n.Inventory.GPUs), scheduler.MaxGPUsPerNode), n.Labels["rack"]
	if m.GPUs > 0 {
		m.GPUType, m.GPUMemoryBytes = n.Inventory.GPUs[0].Name, int64(n.Inventory.GPUs[0].MemoryBytes)
	}
	return m
}

// nodeOpen tells the scheduler that it may place launches on a node, or may no longer.
func (q *queue) nodeOpen(n *node, open bool) {
	if !open {
		q.mail.Post(scheduler.Event{Kind: scheduler.Cordoned, Node: n.id})
		return
	}
	event := scheduler.Event{Kind: scheduler.NodeUp, Node: n.id}
	if !q.leader.holdsGPUs(n) { // what runs keeps its GPUs' numbers
		machine := q.machine(n)
		event.Machine = &machine
	}
	q.mail.Post(event)
	if q.gpus {
		n.occupied &= 1<<len(n.Inventory.GPUs) - 1 // it may have fewer GPUs now
		q.tellForeign(n)
	}
	q.grown = true
}

// nodeLost tells the scheduler that everything that ran on a node is lost. It queues those jobs
// again.
func (q *queue) nodeLost(n *node) {
	for _, p := range q.parts {
		if slices.ContainsFunc(p.on, func(gpu cluster.GPU) bool { return gpu.Node == n.id }) {
			p.lose()
		}
	}
	q.mail.Post(scheduler.Event{Kind: scheduler.NodeDown, Node: n.id})
	n.occupied = 0 // the scheduler forgets it
}

// resume tells the schedulers of a launch that an earlier leader has left: what runs keeps its
// place.
func (l *Leader) resume(e *entry) {
	for i := range e.State.Replicas {
		if e.State.Replicas[i].Live {
			l.occupy(e, i)
		}
	}
	if parts := e.liveParts(); len(parts) > 0 {
		e.parts = parts
		for _, p := range parts {
			p.queue = l.queueFor(e)
			p.queue.adopt(p)
		}
	}
	l.syncParts(e)
}

// liveParts returns the parts of a launch that have places. All that live are taken for the gang:
// which of them have joined later makes no difference to the scheduler.
func (e *entry) liveParts() map[int]*part {
	p := &part{entry: e}
	for i := range e.State.Replicas {
		if r := &e.State.Replicas[i]; r.Live {
			p.replicas = append(p.replicas, i)
			p.assigned = append(p.assigned, launch.Assignment{Replica: i, Node: r.Node, GPUs: r.GPUs, Port: r.Port})
		}
	}
	if len(p.replicas) == 0 {
		return nil
	}
	return map[int]*part{gang: p}
}

// queueFor returns the queue that places a launch.
func (l *Leader) queueFor(e *entry) *queue {
	for _, job := range e.State.Spec.Jobs {
		for _, process := range job.Processes {
			if process.Resources.GPUs > 0 {
				return l.queues[0]
			}
		}
	}
	return l.queues[1]
}

// onlyType returns the one type of GPU that the cluster has and that will do for a part; empty if
// there are several. The scheduler looks at types when it reserves and preempts.
func (q *queue) onlyType(n fit.Need) string {
	if !q.gpus {
		return ""
	}
	types := map[string]bool{}
	for kind := range q.leader.gpuKinds() {
		fits := true
		for i := range n.Replicas {
			fits = fits && (n.Replicas[i].GPUs == 0 || n.Replicas[i].Takes(kind.name, kind.memory))
		}
		if fits {
			types[kind.name] = true
		}
	}
	if len(types) != 1 {
		return ""
	}
	for name := range types {
		return name
	}
	return ""
}

// unitsOf returns the GPUs or places of a replica that runs, as the scheduler numbers them. Places
// have no number in records: at a takeover they are numbered again.
func (q *queue) unitsOf(a launch.Assignment) (units []cluster.GPU) {
	n := q.leader.nodes[a.Node]
	if n == nil {
		return nil
	}
	if !q.gpus {
		n.adopted++
		return []cluster.GPU{{Node: n.id, Index: n.adopted - 1}}
	}
	for _, gpu := range a.GPUs {
		if i := slices.IndexFunc(n.Inventory.GPUs, func(has record.GPU) bool { return has.Index == gpu }); i >= 0 {
			units = append(units, cluster.GPU{Node: n.id, Index: int32(i)})
		}
	}
	return units
}

// adopt tells the scheduler of a part that runs. Parts that were to start in its place wait again.
func (q *queue) adopt(p *part) {
	p.id = q.newID(p.entry)
	q.parts[p.id] = p
	p.run, p.units = p.entry.Runs, map[int][]cluster.GPU{}
	for _, a := range p.assigned {
		p.units[a.Replica] = q.unitsOf(a)
		p.on = append(p.on, p.units[a.Replica]...)
	}
	slices.SortFunc(p.on, fit.CompareGPUs)
	q.clear(p)
	q.postAdopted(p)
}

// postAdopted describes a part that runs to the scheduler.
func (q *queue) postAdopted(p *part) {
	need := p.need()
	q.placer.Keep(p.id, need)
	e, clock := p.entry, q.leader.clock
	q.mail.Post(scheduler.Event{Kind: scheduler.Adopted, Job: p.id, State: &scheduler.JobState{
		Job: q.facts(p, need), Phase: scheduler.Running, On: p.on, Since: clock.Since(e.Placed),
		Attained: e.RanBefore, WaitingSince: clock.Since(e.Queued), First: clock.Since(e.Started),
		Runs: max(1, e.Runs), Run: p.run, LastRun: p.run,
	}})
}

// clear makes parts wait again that were to start in the place of one which runs on. It reports
// whether there were any. The scheduler must learn of both in one step.
func (q *queue) clear(p *part) (any bool) {
	for _, other := range q.startable() {
		if other != p && slices.ContainsFunc(other.on, func(gpu cluster.GPU) bool { return slices.Contains(p.on, gpu) }) {
			other.lose()
			q.refuse(other)
			any = true
		}
	}
	return any
}

// insist tells the scheduler again of a part that runs, if that part's place was given to others in
// the meantime. It reports whether it was.
func (q *queue) insist(p *part) bool {
	if !q.clear(p) {
		return false
	}
	q.postAdopted(p)
	return true
}
