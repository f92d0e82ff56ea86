package graph

import (
	"slices"

	"github.com/phos-gpu/phos/hijack/abi"
)

// UpdateResult is a CUgraphExecUpdateResult.
type UpdateResult uint32

// Results of an update.
const (
	UpdateSuccess          UpdateResult = 0
	UpdateError            UpdateResult = 1
	UpdateTopologyChanged  UpdateResult = 2
	UpdateNodeTypeChanged  UpdateResult = 3
	UpdateFunctionChanged  UpdateResult = 4
	UpdateParameterChanged UpdateResult = 5
	UpdateNotSupported     UpdateResult = 6
)

// Mismatch says where two graphs differ. Node is the node of the new graph, Was that of the
// instantiated graph; either may be 0.
type Mismatch struct {
	Result    UpdateResult
	Node, Was abi.Handle
}

// Match compares a graph with the one of the plan. Nodes are paired in the order of creation and
// must have the same types and edges. It returns the new op of each step.
func (p *Plan) Match(g *Graph) (map[int]Op, *Mismatch) {
	ops := map[int]Op{}
	if miss := p.match(&p.shape, g, ops); miss != nil {
		return nil, miss
	}
	return ops, nil
}

// match compares g with the shape it had, and puts its ops into ops by step.
func (p *Plan) match(was *shape, g *Graph, ops map[int]Op) *Mismatch {
	now := g.shape()
	if len(was.nodes) != len(now.nodes) {
		miss := &Mismatch{Result: UpdateTopologyChanged}
		if len(now.nodes) > len(was.nodes) {
			miss.Node = now.nodes[len(was.nodes)].handle
		} else {
			miss.Was = was.nodes[len(now.nodes)].handle
		}
		return miss
	}
	for i, n := range g.nodes {
		old := &was.nodes[i]
		if old.kind != n.Op.Type() {
			return &Mismatch{Result: UpdateNodeTypeChanged, Node: n.Handle, Was: old.handle}
		}
		if !sameSet(old.after, now.nodes[i].after) {
			return &Mismatch{Result: UpdateTopologyChanged, Node: n.Handle, Was: old.handle}
		}
		if child, ok := n.Op.(Child); ok {
			if miss := p.match(old.child, child.Graph, ops); miss != nil {
				return miss
			}
			continue
		}
		ops[p.Index[old.handle]] = n.Op
	}
	return nil
}

// sameSet reports whether two lists are equal but for their order.
func sameSet(a, b []int) bool {
	if slices.Equal(a, b) {
		return true
	}
	a, b = slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b))
	return slices.Equal(a, b)
}

// MatchChild is Match for the child graph of one node of the plan.
func (p *Plan) MatchChild(node abi.Handle, g *Graph) (map[int]Op, *Mismatch) {
	was := p.shape.child(node)
	if was == nil {
		return nil, &Mismatch{Result: UpdateNodeTypeChanged, Was: node}
	}
	ops := map[int]Op{}
	if miss := p.match(was, g, ops); miss != nil {
		return nil, miss
	}
	return ops, nil
}

// child returns the shape of a node's child graph, at any depth.
func (s *shape) child(node abi.Handle) *shape {
	for i := range s.nodes {
		n := &s.nodes[i]
		if n.child == nil {
			continue
		}
		if n.handle == node {
			return n.child
		}
		if inner := n.child.child(node); inner != nil {
			return inner
		}
	}
	return nil
}
