package control

import (
	"errors"
	"fmt"
	"slices"

	"github.com/phos-gpu/phos/cluster/control/fit"
	"github.com/phos-gpu/phos/cluster/launch"
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
		if t := n.tableNode(); !t.Takes(&want, &r, *has) {
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
