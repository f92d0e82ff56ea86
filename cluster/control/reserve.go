package control

import (
	"errors"
	"fmt"
	"slices"

	"github.com/phos-gpu/phos/cluster/control/fit"
	"github.com/phos-gpu/phos/cluster/launch"
	"github.com/phos-gpu/phos/scheduler/cluster"
)

// errNoRoom means that a node cannot take a replica after all: something has changed since the
// scheduler decided.
var errNoRoom = errors.New("the node has no room")

// reserve checks a part's places against what the nodes have now, and gives each replica its ports.
func (l *Leader) reserve(p *part) ([]launch.Assignment, error) {
	if len(p.assigned) != len(p.replicas) {
		return nil, fmt.Errorf("%w: the scheduler's answer is of another table", errNoRoom)
	}
	want := p.need()
	used := map[string]*fit.Taken{}
	ports := map[string][]PortRange{}
	assigned := slices.Clone(p.assigned)
	for i := range assigned {
		a := &assigned[i]
		r := want.Replicas[slices.IndexFunc(want.Replicas, func(r fit.Replica) bool { return r.Number == a.Replica })]
		n := l.nodes[a.Node]
		if n == nil {
			return nil, fmt.Errorf("%w: node %s was removed", errNoRoom, a.Node)
		}
		has := used[a.Node]
		if has == nil {
			has = &fit.Taken{}
			used[a.Node] = has
		}
		if t := n.tableNode(); !t.Takes(&want, &r, *has) || !reaches(&t, &r, l.nodes) {
			return nil, fmt.Errorf("%w: %s", errNoRoom, a.Node)
		}
		has.Add(&r)
		if a.Port = l.freePorts(n, ports[a.Node], r.Ports); a.Port == 0 {
			return nil, fmt.Errorf("%w: %d ports on %s", errNoRoom, r.Ports, a.Node)
		}
		ports[a.Node] = append(ports[a.Node], PortRange{a.Port, a.Port + r.Ports - 1})
	}
	return assigned, nil
}

// reaches reports whether a node has the image of a replica, or can fetch it from one of the nodes.
func reaches(on *fit.Node, r *fit.Replica, nodes map[string]*node) bool {
	var holders fit.Table
	for _, name := range r.Nodes {
		if n := nodes[name]; n != nil {
			holders = append(holders, fit.Node{Name: name, SharesImages: n.sharesImages()})
		}
	}
	return on.Reaches(r, holders.Sends(r))
}

// freePorts returns the first of some ports in a row that no replica on a node has, and that are
// not among others; 0 if there are none. The search goes round, so that ports are not used again at
// once: connections of their last user may linger.
func (l *Leader) freePorts(n *node, others []PortRange, count int) int {
	taken := slices.Clone(others)
	for _, r := range n.live {
		taken = append(taken, PortRange{r.port, r.port + r.need.Ports - 1})
	}
	span := l.settings.Ports.To - l.settings.Ports.From + 2 - count
	for tried := range max(span, 0) {
		from := l.settings.Ports.From + (n.nextPort+tried)%span
		overlaps := func(r PortRange) bool { return from <= r.To && r.From < from+count }
		if !slices.ContainsFunc(taken, overlaps) {
			n.nextPort = from - l.settings.Ports.From + count
			return from
		}
	}
	return 0
}

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
		ChoosesGPUs: n.Inventory.ChoosesGPUs, Networks: n.Inventory.Networks, SharesImages: n.sharesImages(),
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
