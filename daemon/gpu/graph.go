package gpu

import (
	"fmt"
	"reflect"

	"github.com/phos-gpu/phos/hijack/abi"
)

// Graph is work with dependencies, as data: node i runs after the nodes listed in its After. Child
// graphs are already inlined.
type Graph struct {
	Nodes []Node
}

// Node is one step of a graph.
type Node struct {
	Work  Work
	After []int
}

// Executable is an instantiated graph. Its launches must not overlap: the caller makes a stream
// wait for a launch in another one.
type Executable interface {
	// Launch runs the whole graph as one piece of work in the stream.
	Launch(stream Stream) error
	// Update replaces the work of a node, given by its index, with work of the same type. It takes
	// effect at the next launch.
	Update(node int, work Work) error
	Close() error
}

// Plan is the dependency structure of a graph; it never changes.
type Plan struct {
	Order []int   // topological, by index where several nodes are ready
	Next  [][]int // by node: the nodes that wait for it
	Needs []int32 // by node: how many it waits for
	Width int     // maximum number of nodes at one depth
}

// Plan orders the nodes of a graph, or returns why the graph is invalid.
func (g *Graph) Plan() (*Plan, error) {
	refuse := func(format string, args ...any) (*Plan, error) {
		return nil, &Error{Op: "instantiate graph", Code: abi.InvalidValue, Detail: fmt.Sprintf(format, args...)}
	}
	p := &Plan{Next: make([][]int, len(g.Nodes)), Needs: make([]int32, len(g.Nodes))}
	for i, node := range g.Nodes {
		for _, before := range node.After {
			if before < 0 || before >= len(g.Nodes) || before == i {
				return refuse("node %d depends on node %d", i, before)
			}
			p.Next[before] = append(p.Next[before], i)
			p.Needs[i]++
		}
	}
	if p.sort(); len(p.Order) < len(g.Nodes) {
		return refuse("the dependencies form a cycle")
	}
	return p, nil
}

// sort appends to Order all nodes that are not part of a cycle.
func (p *Plan) sort() {
	left := append([]int32(nil), p.Needs...)
	depth, counts := make([]int, len(left)), make([]int, len(left))
	reach := func(i int) {
		p.Order = append(p.Order, i)
		counts[depth[i]]++
		p.Width = max(p.Width, counts[depth[i]])
	}
	for i := range left {
		if left[i] == 0 {
			reach(i)
		}
	}
	for at := 0; at < len(p.Order); at++ {
		i := p.Order[at]
		for _, after := range p.Next[i] {
			depth[after] = max(depth[after], depth[i]+1)
			if left[after]--; left[after] == 0 {
				reach(after)
			}
		}
	}
}

// CheckUpdate returns an error if the node does not exist, or if its new work has another type.
func CheckUpdate(works []Work, node int, work Work) error {
	refuse := func(detail string) error {
		return &Error{Op: "update graph", Code: abi.InvalidValue, Detail: fmt.Sprintf("node %d: %s", node, detail)}
	}
	if node < 0 || node >= len(works) {
		return refuse("no such node")
	}
	if reflect.TypeOf(work) != reflect.TypeOf(works[node]) {
		return refuse(fmt.Sprintf("%T cannot become %T", works[node], work))
	}
	return nil
}
