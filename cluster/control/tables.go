package control

import (
	"slices"

	"github.com/phos-gpu/phos/cluster/control/fit"
	"github.com/phos-gpu/phos/scheduler/cluster"
)

// tables are what placers know of the nodes, by their numbers for the schedulers. A table that was
// given away does not change, so what has changed of a few nodes goes into a copy.
type tables struct {
	// names are those of all nodes that have a number; empty: it was removed.
	names []string
	// last is the table that the placers have, and stale are the nodes of which it is wrong.
	last  fit.Table
	stale map[*node]struct{}
	// empty is the table as if nothing ran and all nodes were open; nil: it must be made. kinds are
	// the GPUs in it.
	empty fit.Table
	kinds map[gpuKind]struct{}
}

// gpuKind is what launches can tell GPUs apart by.
type gpuKind struct {
	name   string
	memory uint64
}

// add gives a node the next number.
func (t *tables) add(name string) cluster.NodeID {
	t.names = append(t.names, name)
	return cluster.NodeID(len(t.names) - 1)
}

// tableChanged notes that what runs on a node has changed, or whether it is open.
func (l *Leader) tableChanged(n *node) {
	if n.introduced {
		l.tables.stale[n] = struct{}{}
	}
}

// factsChanged notes that a node has come or gone, or is another one for launches.
func (l *Leader) factsChanged(n *node) {
	l.tables.empty, l.tables.kinds = nil, nil
	l.tableChanged(n)
}

// publishTable gives the placers a new table if something has changed.
func (l *Leader) publishTable() {
	t := &l.tables
	if len(t.stale) == 0 {
		return
	}
	next := make(fit.Table, len(t.names))
	copy(next, t.last)
	for n := range t.stale {
		next[n.id] = fit.Node{}
		if l.nodes[n.Name] == n {
			next[n.id] = n.tableNode()
		}
	}
	clear(t.stale)
	t.last = next
	for _, q := range l.queues {
		q.placer.SetTable(next)
	}
}

// emptyTable returns a table of all nodes, as if nothing ran there and all were open.
func (l *Leader) emptyTable() fit.Table {
	t := &l.tables
	if t.empty != nil {
		return t.empty
	}
	t.empty = make(fit.Table, len(t.names))
	for i, name := range t.names {
		if n := l.nodes[name]; n != nil {
			bare := node{Node: n.Node, open: true}
			t.empty[i] = bare.tableNode()
		}
	}
	return t.empty
}

// gpuKinds returns the kinds of GPUs that the cluster has.
func (l *Leader) gpuKinds() map[gpuKind]struct{} {
	t := &l.tables
	if t.kinds != nil {
		return t.kinds
	}
	t.kinds = map[gpuKind]struct{}{}
	for _, n := range l.nodes {
		for _, gpu := range n.Inventory.GPUs {
			t.kinds[gpuKind{gpu.Name, gpu.MemoryBytes}] = struct{}{}
		}
	}
	return t.kinds
}

// tableNode returns what the placer knows of a node. An inventory does not change: a node gets
// another one.
func (n *node) tableNode() fit.Node {
	t := fit.Node{
		Name: n.Name, Cluster: n.Cluster, Shard: n.Shard, Open: n.open, GPUs: n.Inventory.GPUs,
		Millicpus: uint64(n.Inventory.CPUs) * 1000, Memory: n.Inventory.MemoryBytes,
	}
	for _, r := range n.live {
		t.Millicpus -= min(t.Millicpus, r.need.Millicpus)
		t.Memory -= min(t.Memory, r.need.Memory)
		if id := r.entry.ID; !slices.Contains(t.Launches, id) {
			t.Launches = append(t.Launches, id)
		}
		if r.entry.State.Spec.Place.WholeNodes {
			t.Exclusive = r.entry.ID
		}
	}
	return t
}
