package scheduler

import (
	"slices"
	"time"

	"github.com/phos-gpu/phos/scheduler/cluster"
)

// NodeState is what may happen on a node.
type NodeState uint8

const (
	// NodeOpen nodes get jobs. All others are closed.
	NodeOpen NodeState = iota
	// NodeCordoned nodes get none, and those on them stay.
	NodeCordoned
	// NodeDraining nodes get none, and those on them were preempted; one that could not be saved is
	// still there.
	NodeDraining
	// NodeLost nodes are down.
	NodeLost
)

// String returns the state's name.
func (s NodeState) String() string {
	return [...]string{"open", "cordoned", "draining", "lost"}[min(s, NodeLost)]
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
	switch ev.Kind {
	case NodeUp:
		return e.reopenNode(ev)
	case Occupied, Vacated:
		return e.free.occupy(cluster.GPU{Node: ev.Node, Index: ev.GPU}, ev.Kind == Occupied)
	case Cordoned:
		e.closeNode(ev.Node, NodeCordoned)
	case Drained:
		e.closeNode(ev.Node, NodeDraining)
		e.stopAllOn(ev.Node, Checkpoint)
	default:
		e.closeNode(ev.Node, NodeLost)
		e.free.setForeign(ev.Node, 0)
		e.stopAllOn(ev.Node, Kill)
	}
	e.requestAllAdmissions()
	return nil
}

// closeNode closes a node, or makes the state of a closed one worse.
func (e *Engine) closeNode(node cluster.NodeID, state NodeState) {
	if !e.free.closed[node] {
		e.capacity.add(capacity(&e.nodes[node]), -1)
	}
	e.free.setState(node, max(e.free.states[node], state))
}

// stopAllOn stops the jobs that have a GPU of a node.
func (e *Engine) stopAllOn(node cluster.NodeID, how How) {
	var jobs []*Job
	for j := range e.Running() {
		if slices.ContainsFunc(j.placement, func(gpu cluster.GPU) bool { return gpu.Node == node }) {
			jobs = append(jobs, j)
		}
	}
	for _, j := range jobs {
		e.plan.Stops = append(e.plan.Stops, Stop{Job: j.ID(), How: how})
		j.rememberRun(false)
		e.requeue(j, how)
	}
}

// reopenNode makes a closed node available again, with new properties if the event has them.
func (e *Engine) reopenNode(ev *Event) error {
	if !e.free.closed[ev.Node] || ev.Machine != nil && (ev.Machine.ID != ev.Node || !validNode(ev.Machine)) {
		return ErrBadNode
	}
	if ev.Machine != nil {
		if e.free.held(ev.Node)&^allGPUs(ev.Machine) != 0 {
			return ErrInUse
		}
		e.free.replace(*ev.Machine)
		e.nodes[ev.Node] = *ev.Machine
		e.ready[ev.Node] = nil
		e.updateFits()
	}
	e.free.setState(ev.Node, NodeOpen)
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
		s.fits = e.free.couldHold(s.probe, w.fewest)
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
