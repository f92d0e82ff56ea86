package control

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/phos-gpu/phos/cluster/api"
	"github.com/phos-gpu/phos/cluster/record"
)

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
		Node: &n.Node, State: string(l.state(n)), Seen: l.seen(n), Users: map[int]string{},
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
