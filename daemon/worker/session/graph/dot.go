package graph

import (
	"fmt"
	"strings"
)

// Dot returns the graph in graphviz's format. name returns details on an operation, or "".
func (g *Graph) Dot(name func(Op) string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "digraph \"graph %d\" {\n", g.Handle.Index())
	g.dotInto(&b, name)
	b.WriteString("}\n")
	return b.String()
}

// dotInto writes a graph and its child graphs as DOT clusters; name adds to a node's label.
func (g *Graph) dotInto(b *strings.Builder, name func(Op) string) {
	fmt.Fprintf(b, "subgraph cluster_%d {\nlabel=\"graph %d\"\n", g.Handle.Index(), g.Handle.Index())
	for _, n := range g.nodes {
		label := n.Op.Type().String()
		if more := name(n.Op); more != "" {
			label += " " + more
		}
		fmt.Fprintf(b, "n%d [label=%q]\n", n.Handle.Index(), label)
		if child, ok := n.Op.(Child); ok {
			child.Graph.dotInto(b, name)
		}
	}
	for _, n := range g.nodes {
		for _, d := range n.dependents {
			fmt.Fprintf(b, "n%d -> n%d\n", n.Handle.Index(), d.Handle.Index())
		}
	}
	b.WriteString("}\n")
}
