package graph

import (
	"slices"

	"github.com/phos-gpu/phos/daemon/gpu"
	"github.com/phos-gpu/phos/hijack/abi"
)

// Set is all graphs of a session, with an index of their nodes.
type Set struct {
	nextNode func() abi.Handle
	nodes    map[abi.Handle]*Node
}

// NewSet returns an empty set. nextNode returns handles for new nodes.
func NewSet(nextNode func() abi.Handle) *Set {
	return &Set{nextNode: nextNode, nodes: map[abi.Handle]*Node{}}
}

// Node returns a node by its handle. It fails with abi.InvalidValue, as the driver does, if there
// is none.
func (s *Set) Node(h abi.Handle) (*Node, error) {
	if n := s.nodes[h]; n != nil {
		return n, nil
	}
	return nil, refuse("find graph node", h.String()+" does not exist")
}

// Nodes returns the nodes of several handles.
func (s *Set) Nodes(handles []abi.Handle) ([]*Node, error) {
	nodes := make([]*Node, len(handles))
	for i, h := range handles {
		n, err := s.Node(h)
		if err != nil {
			return nil, err
		}
		nodes[i] = n
	}
	return nodes, nil
}

// Graph is a set of nodes with edges between them.
type Graph struct {
	// Handle is the program's handle of the graph.
	Handle abi.Handle
	// References counts the graph's references to each user object.
	References map[abi.Handle]uint32

	set   *Set
	nodes []*Node // in the order of creation
	// parent is the node whose child graph this is, or nil.
	parent *Node
}

// Node is one step of a graph.
type Node struct {
	Handle abi.Handle
	Op     Op

	graph        *Graph
	origin       *Node // the node it was cloned from
	dependencies []*Node
	dependents   []*Node
	// captured is set for nodes that a captured stream added, while its capture lasts.
	captured bool
}

// NewGraph returns an empty graph.
func (s *Set) NewGraph(h abi.Handle) *Graph { return &Graph{Handle: h, set: s} }

// refuse returns an error with abi.InvalidValue.
func refuse(op, detail string) error {
	return &gpu.Error{Op: op, Code: abi.InvalidValue, Detail: detail}
}

// Add adds a node that runs after others. They must be different nodes of this graph.
func (g *Graph) Add(op Op, after []*Node) (*Node, error) {
	for i, d := range after {
		if d.graph != g || slices.Contains(after[:i], d) {
			return nil, refuse("add graph node", "a dependency is in another graph or listed twice")
		}
	}
	return g.addNode(op, after), nil
}

// addNode adds a node whose dependencies are already checked.
func (g *Graph) addNode(op Op, after []*Node) *Node {
	n := &Node{Handle: g.set.nextNode(), Op: op, graph: g, dependencies: slices.Clone(after)}
	for _, d := range after {
		d.dependents = append(d.dependents, n)
	}
	g.nodes = append(g.nodes, n)
	g.set.nodes[n.Handle] = n
	if child, ok := op.(Child); ok {
		child.Graph.parent = n
	}
	return n
}

// Nodes returns the nodes in the order of creation. The caller must not write into the slice.
func (g *Graph) Nodes() []*Node { return g.nodes }

// Roots returns the nodes that depend on none.
func (g *Graph) Roots() []*Node {
	var roots []*Node
	for _, n := range g.nodes {
		if len(n.dependencies) == 0 {
			roots = append(roots, n)
		}
	}
	return roots
}

// Edges returns every edge as a pair of nodes.
func (g *Graph) Edges() (from, to []*Node) {
	for _, n := range g.nodes {
		for _, d := range n.dependents {
			from, to = append(from, n), append(to, d)
		}
	}
	return from, to
}

// Graph returns the graph of a node.
func (n *Node) Graph() *Graph { return n.graph }

// Dependencies returns the nodes that n runs after.
func (n *Node) Dependencies() []*Node { return n.dependencies }

// Dependents returns the nodes that run after n.
func (n *Node) Dependents() []*Node { return n.dependents }

// Connect adds an edge. An edge that exists, to itself, or between two graphs is refused; cycles
// are found by Plan.
func (g *Graph) Connect(from, to *Node) error {
	if from.graph != g || to.graph != g || from == to || slices.Contains(to.dependencies, from) {
		return refuse("add graph dependency", "the edge exists or does not lie in this graph")
	}
	from.dependents = append(from.dependents, to)
	to.dependencies = append(to.dependencies, from)
	return nil
}

// Disconnect removes an edge.
func (g *Graph) Disconnect(from, to *Node) error {
	if from.graph != g || to.graph != g || !slices.Contains(to.dependencies, from) {
		return refuse("remove graph dependency", "there is no such edge")
	}
	from.dependents = without(from.dependents, to)
	to.dependencies = without(to.dependencies, from)
	return nil
}

func without(nodes []*Node, n *Node) []*Node {
	return slices.DeleteFunc(nodes, func(other *Node) bool { return other == n })
}

// Remove takes a node and its edges out of its graph.
func (g *Graph) Remove(n *Node) error {
	if n.graph != g || g.parent != nil {
		return refuse("destroy graph node", "it is part of a child graph")
	}
	for _, d := range n.dependencies {
		d.dependents = without(d.dependents, n)
	}
	for _, d := range n.dependents {
		d.dependencies = without(d.dependencies, n)
	}
	g.nodes = without(g.nodes, n)
	n.graph = nil
	g.release(n)
	return nil
}

func (g *Graph) release(n *Node) {
	delete(g.set.nodes, n.Handle)
	if child, ok := n.Op.(Child); ok {
		child.Graph.Release()
	}
}

// Release removes the handles of all nodes. The graph must not be used afterwards.
func (g *Graph) Release() {
	for _, n := range g.nodes {
		g.release(n)
	}
	g.nodes = nil
}

// Children returns the graphs of child nodes, at every depth.
func (g *Graph) Children() []*Graph {
	var children []*Graph
	for _, n := range g.nodes {
		if child, ok := n.Op.(Child); ok {
			children = append(children, child.Graph)
			children = append(children, child.Graph.Children()...)
		}
	}
	return children
}

// IsChild reports whether the graph belongs to a node of another graph. Then only that node may
// destroy it.
func (g *Graph) IsChild() bool { return g.parent != nil }

// Clone copies the graph, including child graphs. handle returns the handles of the copies.
func (g *Graph) Clone(handle func() abi.Handle) *Graph {
	clone := g.set.NewGraph(handle())
	copies := make(map[*Node]*Node, len(g.nodes))
	for _, n := range g.nodes {
		op := n.Op
		if child, ok := op.(Child); ok {
			op = Child{Graph: child.Graph.Clone(handle)}
		}
		c := clone.addNode(op, nil)
		c.origin = n
		copies[n] = c
	}
	for _, n := range g.nodes {
		for _, d := range n.dependencies {
			copies[n].dependencies = append(copies[n].dependencies, copies[d])
		}
		for _, d := range n.dependents {
			copies[n].dependents = append(copies[n].dependents, copies[d])
		}
	}
	return clone
}

// FindInClone returns the copy of a node in a graph that was cloned from the node's graph.
func (g *Graph) FindInClone(original *Node) (*Node, error) {
	for _, n := range g.nodes {
		if n.origin == original {
			return n, nil
		}
		if child, ok := n.Op.(Child); ok {
			if found, err := child.Graph.FindInClone(original); err == nil {
				return found, nil
			}
		}
	}
	return nil, refuse("find graph node in clone", "the graph has no copy of the node")
}

// SetOp replaces a node's operation. The type must stay the same.
func (n *Node) SetOp(op Op) error {
	if n.Op.Type() != op.Type() {
		return refuse("set graph node parameters", "the node is a "+n.Op.Type().String()+" node")
	}
	n.Op = op
	return nil
}
