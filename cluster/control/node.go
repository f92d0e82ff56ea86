package control

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/phos-gpu/phos/cluster/api"
	"github.com/phos-gpu/phos/cluster/control/fit"
	"github.com/phos-gpu/phos/cluster/control/session"
	"github.com/phos-gpu/phos/cluster/launch"
	"github.com/phos-gpu/phos/cluster/record"
	"github.com/phos-gpu/phos/cluster/store"
	"github.com/phos-gpu/phos/scheduler/cluster"
)

// node is a node that the leader knows.
type node struct {
	record.Node
	revision store.Revision
	// renewed is the boot time at which the leader has last received a renewal.
	renewed time.Duration
	// session is the stream to its agent; nil: none.
	session *session.Session
	// id is the node's number for the schedulers, once it was introduced to them.
	id         cluster.NodeID
	introduced bool
	// open means that the schedulers place launches there, reachable that its agent answers.
	open, reachable bool
	// live are the replicas with processes there.
	live map[liveKey]liveReplica
	// nextPort is where the search for free ports goes on.
	nextPort int
	// reported is what the agent said last that the node has. waiting means that its GPUs do not count
	// before nothing runs there.
	reported record.Inventory
	waiting  bool
	// foreign are the processes of no launch on its GPUs, by index. occupied has a bit for each GPU
	// that the scheduler counts as taken by them.
	foreign  map[int][]*api.ForeignProcess
	occupied uint64
	// trusts is which CAs it follows; nil: its agent has not said that to this leader.
	trusts *api.Trusts
	// adopted counts the places that were numbered at a takeover.
	adopted int32
}

// liveKey names a replica.
type liveKey struct {
	entry   *entry
	replica int
}

// liveReplica is what a replica with processes has of its node.
type liveReplica struct {
	entry *entry
	need  fit.Replica
	gpus  []int
	port  int
}

// occupy notes that a replica has processes on its node.
func (l *Leader) occupy(e *entry, replica int) {
	r := &e.State.Replicas[replica]
	n := l.nodes[r.Node]
	if n == nil {
		return // it was removed by force
	}
	if n.live == nil {
		n.live = map[liveKey]liveReplica{}
	}
	n.live[liveKey{e, replica}] = liveReplica{e, fit.ReplicaOf(&e.State.Spec, r, replica), r.GPUs, r.Port}
	l.tableChanged(n)
}

// vacate notes that a replica has no processes left on a node.
func (l *Leader) vacate(e *entry, replica int, name string) {
	if n := l.nodes[name]; n != nil {
		delete(n.live, liveKey{e, replica})
		l.tableChanged(n)
		if n.waiting { // the schedulers must learn first that this one has ended
			l.turns.Add(func() { l.takeInventory(n) })
		}
	}
}

// nodeState is what people call the state of a node.
type nodeState string

// The states of nodes.
const (
	// ready: its agent renews its lease.
	ready nodeState = "ready"
	// unreachable: it does not, so the node gets nothing new. What it runs goes on.
	unreachable nodeState = "unreachable"
	// gone: it was given up. Its launches may run elsewhere.
	gone nodeState = "gone"
)

// state returns a node's state now.
func (l *Leader) state(n *node) nodeState {
	switch {
	case n.Gone:
		return gone
	case n.session == nil, l.clock.Boot()-n.renewed > l.settings.Times.Lease:
		return unreachable
	}
	return ready
}

// nodeEvent notes something in the node's own log.
func (l *Leader) nodeEvent(n *node, kind, text string) {
	n.AddEvent(record.Event{At: l.clock.Wall(), Epoch: int64(l.Epoch()), Kind: kind, Text: text})
	l.changedNodes[n] = struct{}{}
	l.log.Info("node "+kind, "node", n.Name, "text", text)
}

// lookAtTheClock ends what has waited long enough: leases of nodes, and time limits of launches.
func (l *Leader) lookAtTheClock() {
	for _, n := range l.nodes {
		l.lookAtLease(n)
		if n.waiting {
			l.takeInventory(n)
		}
	}
	library{l}.copy()
	now := l.clock.Wall()
	l.quotas.forgetUploads(now.Add(-l.settings.KeepEnded))
	for _, e := range l.launches {
		mover{l}.look(e, now)
		cutter{l}.look(e, now)
		limit := time.Duration(e.State.Spec.TimeLimit)
		if limit > 0 && e.State.Phase == launch.Running && e.running(now) >= limit {
			l.mustApply(e, launch.TimeLimitReached{})
		}
		if e.State.Phase == launch.Ended && now.Sub(e.Ended) > l.settings.KeepEnded && e.Number < l.latest {
			l.forget(e)
		}
	}
	if len(l.launches) > l.settings.KeepMost+l.settings.KeepMost/10 { // not each time that one ends
		for _, e := range oldestEnded(l.launches, l.latest, l.settings.KeepMost) {
			l.forget(e)
		}
	}
}

// mustApply applies an event that no phase refuses.
func (l *Leader) mustApply(e *entry, event launch.Event) {
	if err := l.apply(e, event); err != nil {
		l.log.Error("event refused", "launch", e.ID, "event", fmt.Sprintf("%T", event), "error", err)
	}
}

// lookAtLease gives the scheduler a node, or takes it away, by its lease. A node that has not
// renewed for FenceAfter has stopped what it ran; the margin is for clocks of different speed.
func (l *Leader) lookAtLease(n *node) {
	state := l.state(n)
	l.setReachable(n, state == ready)
	l.setOpen(n, state == ready && !n.Cordoned && !n.Draining)
	if state == unreachable {
		l.questions.EndOf(n.Name)
	}
	silent := l.clock.Boot() - n.renewed
	if state == unreachable && silent > l.settings.Times.FenceAfter+l.settings.Times.Margin {
		l.giveUp(n, fmt.Sprintf("it has not answered for %v", silent.Round(time.Second)))
	}
}

// giveUp lets the launches of a node run elsewhere. The caller knows that none of their processes
// is left there.
func (l *Leader) giveUp(n *node, reason string) {
	n.Gone, n.GoneAt = true, l.clock.Wall()
	l.nodeEvent(n, "gone", reason)
	l.setReachable(n, false)
	l.setOpen(n, false)
	for _, e := range n.entries() {
		library{l}.lose(e)
	}
	l.loseProcesses(n)
}

// loseProcesses tells the launches of a node that their processes there are gone.
func (l *Leader) loseProcesses(n *node) {
	lost := n.entries()
	for _, e := range lost {
		l.event(e, "node gone", n.Name)
		l.mustApply(e, launch.NodeGone{Node: n.Name})
	}
	for _, q := range l.queues {
		q.nodeLost(n)
	}
}

// entries returns the launches with processes on a node, in the order of their numbers.
func (n *node) entries() (found []*entry) {
	for key := range n.live {
		if !slices.Contains(found, key.entry) {
			found = append(found, key.entry)
		}
	}
	slices.SortFunc(found, func(a, b *entry) int { return a.Number - b.Number })
	return found
}

// setReachable notes whether a node's agent answers. Launches whose images it has wait for that.
func (l *Leader) setReachable(n *node, reachable bool) {
	if n.reachable == reachable {
		return
	}
	n.reachable = reachable
	l.tableChanged(n)
	for e := range l.imaged {
		if e.State.Phase == launch.Queued && e.isBoundTo(n.Name) {
			l.syncParts(e) // it is placed anew
		}
	}
}

// setOpen tells the scheduler whether it may place launches on a node.
func (l *Leader) setOpen(n *node, open bool) {
	if n.open == open {
		return
	}
	n.open = open
	l.tableChanged(n)
	for _, q := range l.queues {
		q.nodeOpen(n, open)
	}
}

// NodeNow is a node, with what only the leader knows of it.
type NodeNow struct {
	*record.Node
	State string
	// Seen is when the leader has last received a renewal.
	Seen time.Time
	// Launches are the ids of the launches with processes there, and Users the same by the index of
	// a GPU.
	Launches []string
	Users    map[int]string
	// Millicpus and Memory are what their replicas there have asked for.
	Millicpus, Memory uint64
	// Foreign are the processes of no launch on its GPUs, by the index of the GPU. They do not change.
	Foreign map[int][]*api.ForeignProcess
	// Trusts is which CAs it follows; nil: its agent has not said that to this leader.
	Trusts *api.Trusts
}

// Nodes returns the nodes by name.
func (t Turn) Nodes() (found []NodeNow) {
	for _, name := range slices.Sorted(maps.Keys(t.leader.nodes)) {
		found = append(found, t.leader.now(t.leader.nodes[name]))
	}
	return found
}

// Node returns a node.
func (t Turn) Node(name string) (NodeNow, error) {
	n, err := t.leader.node(name)
	if err != nil {
		return NodeNow{}, err
	}
	return t.leader.now(n), nil
}

// node returns the node that a request names.
func (l *Leader) node(name string) (*node, error) {
	if n := l.nodes[name]; n != nil {
		return n, nil
	}
	return nil, fmt.Errorf("%w: node %.100q", api.ErrNotFound, name)
}

// now returns what the leader knows of a node.
func (l *Leader) now(n *node) NodeNow {
	known := NodeNow{
		Node: &n.Node, State: string(l.state(n)), Seen: l.seen(n), Users: map[int]string{}, Foreign: n.foreign,
		Trusts: n.trusts,
	}
	for _, r := range n.live {
		known.Millicpus += r.need.Millicpus
		known.Memory += r.need.Memory
		for _, gpu := range r.gpus {
			known.Users[gpu] = r.entry.ID
		}
	}
	for _, e := range n.entries() {
		known.Launches = append(known.Launches, e.ID)
	}
	return known
}

// seen returns when the leader has last received a renewal of a node.
func (l *Leader) seen(n *node) time.Time { return l.clock.Wall().Add(n.renewed - l.clock.Boot()) }
