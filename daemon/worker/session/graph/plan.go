package graph

import "github.com/phos-gpu/phos/hijack/abi"

// Plan is a flattened graph: child graphs are inlined, and each step follows its dependencies.
type Plan struct {
	Steps []Step
	// Index maps nodes to steps, at every depth.
	Index map[abi.Handle]int
	// shape is the shape of the graph when the plan was made, for Match.
	shape shape
}

// Step is one node of a plan.
type Step struct {
	Op    Op
	After []int
}

// shape is the part of a graph that an update of an executable must not change.
type shape struct {
	nodes []shapeNode
}

type shapeNode struct {
	handle abi.Handle
	kind   Type
	after  []int
	child  *shape
}

// Plan flattens the graph. It fails with abi.InvalidValue when the edges form a cycle.
func (g *Graph) Plan() (*Plan, error) {
	p := &Plan{Index: map[abi.Handle]int{}}
	if _, err := p.inline(g, nil); err != nil {
		return nil, err
	}
	p.shape = g.shape()
	return p, nil
}

// inline appends the graph's nodes, with its roots after the given steps, and returns its last
// steps.
func (p *Plan) inline(g *Graph, after []int) (ends []int, err error) {
	order, err := g.sorted()
	if err != nil {
		return nil, err
	}
	last := make(map[*Node]int, len(order))
	for _, n := range order {
		deps := after
		if len(n.dependencies) > 0 {
			deps = make([]int, len(n.dependencies))
			for i, d := range n.dependencies {
				deps[i] = last[d]
			}
		}
		child, ok := n.Op.(Child)
		if ok {
			entry := p.addStep(Empty{}, deps)
			if deps, err = p.inline(child.Graph, []int{entry}); err != nil {
				return nil, err
			}
			if len(deps) == 0 {
				deps = []int{entry}
			}
			last[n] = p.addStep(Empty{}, deps)
		} else {
			last[n] = p.addStep(n.Op, deps)
		}
		p.Index[n.Handle] = last[n]
	}
	for _, n := range order {
		if len(n.dependents) == 0 {
			ends = append(ends, last[n])
		}
	}
	return ends, nil
}

func (p *Plan) addStep(op Op, after []int) int {
	p.Steps = append(p.Steps, Step{Op: op, After: after})
	return len(p.Steps) - 1
}

// sorted returns the nodes in topological order, otherwise in the order of creation.
func (g *Graph) sorted() ([]*Node, error) {
	const (
		begun = 1
		done  = 2
	)
	state := make(map[*Node]int, len(g.nodes))
	order := make([]*Node, 0, len(g.nodes))
	type frame struct {
		node *Node
		next int
	}
	for _, root := range g.nodes {
		if state[root] == done {
			continue
		}
		// An explicit stack instead of recursion: captured graphs are chains of thousands of nodes.
		stack := []frame{{node: root}}
		state[root] = begun
		for len(stack) > 0 {
			top := &stack[len(stack)-1]
			if top.next == len(top.node.dependencies) {
				state[top.node] = done
				order = append(order, top.node)
				stack = stack[:len(stack)-1]
				continue
			}
			d := top.node.dependencies[top.next]
			top.next++
			switch state[d] {
			case begun:
				return nil, refuse("instantiate graph", "its edges form a cycle")
			case 0:
				state[d] = begun
				stack = append(stack, frame{node: d})
			}
		}
	}
	return order, nil
}

// shape returns the graph's shape, with node indices in the order of creation.
func (g *Graph) shape() shape {
	at := make(map[*Node]int, len(g.nodes))
	for i, n := range g.nodes {
		at[n] = i
	}
	s := shape{nodes: make([]shapeNode, len(g.nodes))}
	for i, n := range g.nodes {
		after := make([]int, len(n.dependencies))
		for j, d := range n.dependencies {
			after[j] = at[d]
		}
		s.nodes[i] = shapeNode{handle: n.Handle, kind: n.Op.Type(), after: after}
		if child, ok := n.Op.(Child); ok {
			inner := child.Graph.shape()
			s.nodes[i].child = &inner
		}
	}
	return s
}
