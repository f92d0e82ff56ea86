package control

import (
	"slices"

	"github.com/phos-gpu/phos/cluster/launch"
	"github.com/phos-gpu/phos/cluster/record"
	"github.com/phos-gpu/phos/scheduler/cluster"
)

// table is what the placer knows of the nodes, by their number. It does not change: the leader
// makes a new one when something has.
type table []tableNode

// tableNode is a node in a table.
type tableNode struct {
	name, cluster, shard string
	open                 bool
	// millicpus and memory are what is left.
	millicpus, memory uint64
	gpus              []record.GPU
	// launches are those with processes there; exclusive is the one that wants the node for itself.
	launches  []string
	exclusive string
}

// takes reports whether a node can take a replica besides what a part has put there already. Free
// GPUs are not looked at.
func (t *tableNode) takes(n *need, r *replicaNeed, millicpus, memory uint64) bool {
	switch {
	case !t.open, !t.allowed(n.place), t.exclusive != "" && t.exclusive != n.launch:
		return false
	case n.place.WholeNodes && slices.ContainsFunc(t.launches, func(id string) bool { return id != n.launch }):
		return false
	case r.millicpus+millicpus > t.millicpus, r.memory+memory > t.memory:
		return false
	}
	return true
}

// allowed reports whether a launch may run on a node at all.
func (t *tableNode) allowed(p launch.Place) bool {
	return (p.Cluster == "" || p.Cluster == t.cluster) && (p.Shard == "" || p.Shard == t.shard) &&
		(len(p.Hostnames) == 0 || slices.Contains(p.Hostnames, t.name))
}

// suits reports whether a GPU of a node will do for a replica.
func (t *tableNode) suits(r *replicaNeed, gpu cluster.GPU) bool {
	if int(gpu.Index) >= len(t.gpus) {
		return false
	}
	g := &t.gpus[gpu.Index]
	return g.Bad == "" && r.takes(g.Name, g.MemoryBytes)
}

// tableChanged makes a new table before the next decision of the scheduler.
func (l *Leader) tableChanged() { l.tableStale = true }

// publishTable gives the placers a new table if something has changed.
func (l *Leader) publishTable() {
	if !l.tableStale {
		return
	}
	l.tableStale = false
	t := make(table, len(l.nodeNames))
	for i, name := range l.nodeNames {
		if n := l.nodes[name]; n != nil {
			t[i] = n.tableNode()
		}
	}
	for _, q := range l.queues {
		q.placer.table.Store(&t)
	}
}

// tableNode returns what the placer knows of a node.
func (n *node) tableNode() tableNode {
	t := tableNode{
		name: n.Name, cluster: n.Cluster, shard: n.Shard, open: n.open, gpus: slices.Clone(n.Inventory.GPUs),
		millicpus: uint64(n.Inventory.CPUs) * 1000, memory: n.Inventory.MemoryBytes,
	}
	for _, r := range n.live {
		t.millicpus -= min(t.millicpus, r.need.millicpus)
		t.memory -= min(t.memory, r.need.memory)
		if id := r.entry.ID; !slices.Contains(t.launches, id) {
			t.launches = append(t.launches, id)
		}
		if r.entry.State.Spec.Place.WholeNodes {
			t.exclusive = r.entry.ID
		}
	}
	return t
}
