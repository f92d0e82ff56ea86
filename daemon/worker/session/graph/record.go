package graph

import (
	"fmt"
	"slices"

	"github.com/phos-gpu/phos/hijack/abi"
)

// MaxDepth is the maximum nesting of graphs that can be saved.
const MaxDepth = 1000

// Record is a graph as plain data, for saving and restoring. It shares the ops' memory with the
// graph.
type Record struct {
	Handle     abi.Handle
	References []Reference
	Nodes      []NodeRecord
}

// Reference is a graph's reference count on a user object.
type Reference struct {
	Object abi.Handle
	Count  uint32
}

// NodeRecord is a node of a Record. It names other nodes of the graph by their indices.
type NodeRecord struct {
	Handle abi.Handle
	// Op is nil if Child is set.
	Op    Op
	Child *Record
	// Origin is the node that this one was cloned from; 0 if there is none or it was destroyed.
	Origin                   abi.Handle
	Dependencies, Dependents []uint32
}

// Record returns the graph as plain data.
func (g *Graph) Record() *Record {
	at := make(map[*Node]uint32, len(g.nodes))
	for i, n := range g.nodes {
		at[n] = uint32(i)
	}
	places := func(nodes []*Node) []uint32 {
		list := make([]uint32, len(nodes))
		for i, n := range nodes {
			list[i] = at[n]
		}
		return list
	}
	r := &Record{Handle: g.Handle, References: ListReferences(g.References), Nodes: make([]NodeRecord, len(g.nodes))}
	for i, n := range g.nodes {
		node := NodeRecord{Handle: n.Handle, Op: n.Op, Dependencies: places(n.dependencies), Dependents: places(n.dependents)}
		if n.origin != nil && g.set.nodes[n.origin.Handle] == n.origin {
			node.Origin = n.origin.Handle
		}
		if child, ok := n.Op.(Child); ok {
			node.Op, node.Child = nil, child.Graph.Record()
		}
		r.Nodes[i] = node
	}
	return r
}

// ListReferences returns references as a list, sorted by object.
func ListReferences(references map[abi.Handle]uint32) []Reference {
	var list []Reference
	for object, count := range references {
		list = append(list, Reference{object, count})
	}
	slices.SortFunc(list, func(a, b Reference) int { return int(int64(a.Object) - int64(b.Object)) })
	return list
}

// MapReferences is the inverse of ListReferences.
func MapReferences(list []Reference) map[abi.Handle]uint32 {
	references := make(map[abi.Handle]uint32, len(list))
	for _, r := range list {
		references[r.Object] += r.Count
	}
	return references
}

// damaged returns an error about an invalid record.
func damaged(format string, args ...any) error {
	return refuse("restore graph", fmt.Sprintf(format, args...))
}

// Restore returns the graph of a record, including child graphs. Call Relate for the origins of
// cloned nodes once all graphs are restored.
func (s *Set) Restore(r *Record) (*Graph, error) { return s.restore(r, 0) }

func (s *Set) restore(r *Record, depth int) (*Graph, error) {
	if depth > MaxDepth {
		return nil, damaged("graphs are nested more than %d deep", MaxDepth)
	}
	g := s.NewGraph(r.Handle)
	g.References = MapReferences(r.References)
	for i := range r.Nodes {
		record := &r.Nodes[i]
		if record.Handle.Kind() != abi.KindGraphNode || s.nodes[record.Handle] != nil {
			return nil, damaged("node %v is invalid or exists", record.Handle)
		}
		n := &Node{Handle: record.Handle, Op: record.Op, graph: g}
		s.nodes[n.Handle] = n
		g.nodes = append(g.nodes, n)
		if record.Child != nil {
			child, err := s.restore(record.Child, depth+1)
			if err != nil {
				return nil, err
			}
			child.parent = n
			n.Op = Child{Graph: child}
		}
		if n.Op == nil {
			return nil, damaged("node %v has no operation", n.Handle)
		}
	}
	return g, g.connect(r)
}

// connect adds the edges of a record. The record must list each edge at both nodes.
func (g *Graph) connect(r *Record) error {
	type edge struct{ from, to uint32 }
	edges := map[edge]bool{}
	for i := range r.Nodes {
		for _, from := range r.Nodes[i].Dependencies {
			e := edge{from, uint32(i)}
			if uint64(from) >= uint64(len(g.nodes)) || from == e.to || edges[e] {
				return damaged("node %v has an invalid dependency", r.Nodes[i].Handle)
			}
			edges[e] = true
			g.nodes[i].dependencies = append(g.nodes[i].dependencies, g.nodes[from])
		}
	}
	for i := range r.Nodes {
		for _, to := range r.Nodes[i].Dependents {
			e := edge{uint32(i), to}
			if !edges[e] {
				return damaged("an edge of node %v is listed at one end only", r.Nodes[i].Handle)
			}
			delete(edges, e)
			g.nodes[i].dependents = append(g.nodes[i].dependents, g.nodes[to])
		}
	}
	if len(edges) > 0 {
		return damaged("%d edges are listed at one end only", len(edges))
	}
	return nil
}

// Relate sets the origins of the nodes of a record.
func (s *Set) Relate(r *Record) error {
	for i := range r.Nodes {
		node := &r.Nodes[i]
		if node.Origin != 0 {
			origin, err := s.Node(node.Origin)
			if err != nil {
				return err
			}
			s.nodes[node.Handle].origin = origin
		}
		if node.Child != nil {
			if err := s.Relate(node.Child); err != nil {
				return err
			}
		}
	}
	return nil
}

// PlanRecord is a plan as plain data, without the ops of its steps: the executable may have
// replaced them.
type PlanRecord struct {
	After [][]uint32
	Index []StepOf
	Shape ShapeRecord
}

// StepOf maps a node to its step.
type StepOf struct {
	Node abi.Handle
	Step uint32
}

// ShapeRecord is the part of a graph that an update of an executable must not change.
type ShapeRecord struct{ Nodes []ShapeNodeRecord }

// ShapeNodeRecord is a node of a ShapeRecord.
type ShapeNodeRecord struct {
	Handle abi.Handle
	Type   Type
	After  []uint32
	// Child is nil unless the node is a child graph.
	Child *ShapeRecord
}

// Record returns the plan as plain data.
func (p *Plan) Record() PlanRecord {
	r := PlanRecord{After: make([][]uint32, len(p.Steps)), Shape: p.shape.record()}
	for i, step := range p.Steps {
		r.After[i] = narrow(step.After)
	}
	for node, step := range p.Index {
		r.Index = append(r.Index, StepOf{node, uint32(step)})
	}
	slices.SortFunc(r.Index, func(a, b StepOf) int { return int(int64(a.Node) - int64(b.Node)) })
	return r
}

// record returns the shape as plain data, child graphs included.
func (s *shape) record() ShapeRecord {
	r := ShapeRecord{Nodes: make([]ShapeNodeRecord, len(s.nodes))}
	for i, n := range s.nodes {
		r.Nodes[i] = ShapeNodeRecord{Handle: n.handle, Type: n.kind, After: narrow(n.after)}
		if n.child != nil {
			child := n.child.record()
			r.Nodes[i].Child = &child
		}
	}
	return r
}

// narrow converts indices to 32 bits.
func narrow(list []int) []uint32 {
	out := make([]uint32, len(list))
	for i, v := range list {
		out[i] = uint32(v)
	}
	return out
}

// RestorePlan returns the plan of a record, with the current ops of the executable.
func RestorePlan(r *PlanRecord, ops []Op) (*Plan, error) {
	if len(r.After) != len(ops) {
		return nil, damaged("plan has %d steps but %d ops", len(r.After), len(ops))
	}
	p := &Plan{Steps: make([]Step, len(ops)), Index: make(map[abi.Handle]int, len(r.Index))}
	for i, op := range ops {
		after, err := widen(r.After[i], i)
		if err != nil {
			return nil, err
		}
		p.Steps[i] = Step{Op: op, After: after}
	}
	for _, at := range r.Index {
		if uint64(at.Step) >= uint64(len(ops)) {
			return nil, damaged("node %v has an invalid step", at.Node)
		}
		p.Index[at.Node] = int(at.Step)
	}
	s, err := p.restoreShape(&r.Shape, 0)
	if err != nil {
		return nil, err
	}
	p.shape = *s
	return p, nil
}

// widen converts indices and checks that each is below a limit.
func widen(list []uint32, limit int) ([]int, error) {
	out := make([]int, len(list))
	for i, v := range list {
		if uint64(v) >= uint64(limit) {
			return nil, damaged("a step depends on a later one")
		}
		out[i] = int(v)
	}
	return out, nil
}

func (p *Plan) restoreShape(r *ShapeRecord, depth int) (*shape, error) {
	if depth > MaxDepth {
		return nil, damaged("graphs are nested more than %d deep", MaxDepth)
	}
	s := &shape{nodes: make([]shapeNode, len(r.Nodes))}
	for i := range r.Nodes {
		n := &r.Nodes[i]
		if _, ok := p.Index[n.Handle]; !ok || !n.Type.known() || (n.Child != nil) != (n.Type == TypeChild) {
			return nil, damaged("node %v is not part of the executable", n.Handle)
		}
		after, err := widen(n.After, len(r.Nodes))
		if err != nil {
			return nil, err
		}
		s.nodes[i] = shapeNode{handle: n.Handle, kind: n.Type, after: after}
		if n.Child != nil {
			if s.nodes[i].child, err = p.restoreShape(n.Child, depth+1); err != nil {
				return nil, err
			}
		}
	}
	return s, nil
}

// PastCapture returns the mark of an event that was recorded in an ended capture.
func PastCapture() Mark { return Mark{capture: &Capture{ended: true}} }

// LastID returns the id of the newest capture.
func (c *Captures) LastID() uint64 { return c.lastID }

// Resume sets the id after which new captures are numbered.
func (c *Captures) Resume(lastID uint64) { c.lastID = lastID }
