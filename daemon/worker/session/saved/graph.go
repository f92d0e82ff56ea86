package saved

import (
	"github.com/phos-gpu/phos/daemon/gpu"
	"github.com/phos-gpu/phos/daemon/worker/session/graph"
	"github.com/phos-gpu/phos/hijack/abi"
)

// Graph is a graph with a handle.
type Graph struct {
	// Record is nil for a child graph, which is in the record of its parent.
	Record *graph.Record
}

func (g *Graph) code(c *coder) { optional(c, &g.Record, codeGraph) }

// optional codes a pointer that may be nil.
func optional[T any](c *coder, v **T, code func(*coder, *T)) {
	set := *v != nil
	if c.boolean(&set); !set || c.err != nil {
		return
	}
	if c.reading {
		*v = new(T)
	}
	code(c, *v)
}

// codeGraph codes a graph and its child graphs, at most graph.MaxDepth deep.
func codeGraph(c *coder, g *graph.Record) {
	c.nested(graph.MaxDepth, func() {
		number(c, &g.Handle)
		list(c, &g.References, codeReference)
		list(c, &g.Nodes, codeNode)
	})
}

// codeReference codes a graph's references to one user object.
func codeReference(c *coder, r *graph.Reference) {
	number(c, &r.Object)
	number(c, &r.Count)
}

// codeNode codes a node: its child graph, or its operation if it has none.
func codeNode(c *coder, n *graph.NodeRecord) {
	number(c, &n.Handle)
	number(c, &n.Origin)
	numbers(c, &n.Dependencies)
	numbers(c, &n.Dependents)
	if optional(c, &n.Child, codeGraph); n.Child == nil {
		codeOp(c, &n.Op)
	}
}

// codeOp codes an operation: its type, then the fields of that type.
func codeOp(c *coder, op *graph.Op) {
	kind := graph.TypeEmpty
	if !c.reading {
		kind = (*op).Type()
	}
	number(c, &kind)
	switch kind {
	case graph.TypeKernel:
		codeAs(c, op, codeKernel)
	case graph.TypeMemcpy:
		codeAs(c, op, codeCopy)
	case graph.TypeMemset:
		codeAs(c, op, codeMemset)
	case graph.TypeHost:
		codeAs(c, op, func(c *coder, h *graph.Host) {
			number(c, &h.Function)
			number(c, &h.UserData)
		})
	case graph.TypeEmpty:
		codeAs(c, op, func(*coder, *graph.Empty) {})
	case graph.TypeEventWait:
		codeAs(c, op, func(c *coder, e *graph.EventWait) { number(c, &e.Event) })
	case graph.TypeEventRecord:
		codeAs(c, op, func(c *coder, e *graph.EventRecord) { number(c, &e.Event) })
	case graph.TypeMemoryOps:
		codeAs(c, op, func(c *coder, m *graph.MemoryOps) { list(c, &m.Ops, codeMemoryOp) })
	default:
		c.fail("unknown node type %d", uint32(kind))
	}
}

// codeAs codes an op of a known type. Ops are immutable values, so it works on a copy.
func codeAs[O graph.Op](c *coder, op *graph.Op, code func(*coder, *O)) {
	var o O
	if !c.reading {
		o = (*op).(O)
	}
	code(c, &o)
	*op = o
}

// codeKernel codes a launch; its attributes since version 7.
func codeKernel(c *coder, k *graph.Kernel) {
	number(c, &k.Function)
	for i := range 3 {
		number(c, &k.Grid[i])
		number(c, &k.Block[i])
	}
	number(c, &k.SharedBytes)
	c.boolean(&k.Cooperative)
	c.bytes(&k.Params)
	if c.version >= 7 {
		list(c, &k.Attributes, codeLaunchAttribute)
	}
}

// codeLaunchAttribute codes an attribute, whose value must have its full length.
func codeLaunchAttribute(c *coder, a *abi.LaunchAttribute) {
	number(c, &a.ID)
	value := a.Value[:]
	c.shared(&value)
	if len(value) != len(a.Value) {
		c.fail("launch attribute has %d bytes", len(value))
		return
	}
	copy(a.Value[:], value)
}

// codeCopy codes a copy: both ends, then the extent.
func codeCopy(c *coder, v *graph.Copy) {
	codeEnd(c, &v.Dst)
	codeEnd(c, &v.Src)
	for i := range v.Extent {
		number(c, &v.Extent[i])
	}
}

// codeEnd codes the source or the destination of a copy.
func codeEnd(c *coder, e *graph.End) {
	c.boolean(&e.Program)
	number(c, &e.Address)
	number(c, &e.RowPitch)
	number(c, &e.SlicePitch)
	c.bytes(&e.Inline)
}

// codeMemset codes a memset of rows.
func codeMemset(c *coder, m *graph.Memset) {
	number(c, &m.Address)
	number(c, &m.RowPitch)
	number(c, &m.Pattern)
	number(c, &m.PatternBytes)
	number(c, &m.Columns)
	number(c, &m.Rows)
}

// codeMemoryOp codes a wait for a word of memory, or a write of one.
func codeMemoryOp(c *coder, o *gpu.MemoryOp) {
	c.boolean(&o.Wait)
	number(c, &o.Until)
	number(c, &o.Bytes)
	number(c, &o.Address)
	number(c, &o.Value)
}

// Executable is an instantiated graph.
type Executable struct {
	Flags uint64
	// Stale is set if it must be instantiated again before the next launch.
	Stale bool
	// Ops are the steps' current operations, Off the indices of disabled steps.
	Ops        []graph.Op
	Off        []int
	Plan       graph.PlanRecord
	References []graph.Reference
}

// code codes an executable: its current operations and its plan.
func (x *Executable) code(c *coder) {
	number(c, &x.Flags)
	c.boolean(&x.Stale)
	list(c, &x.Ops, codeOp)
	numbers(c, &x.Off)
	list(c, &x.Plan.After, func(c *coder, after *[]uint32) { numbers(c, after) })
	list(c, &x.Plan.Index, func(c *coder, s *graph.StepOf) {
		number(c, &s.Node)
		number(c, &s.Step)
	})
	codeShape(c, &x.Plan.Shape)
	list(c, &x.References, codeReference)
}

// codeShape codes the shape of a plan, at most graph.MaxDepth deep.
func codeShape(c *coder, s *graph.ShapeRecord) {
	c.nested(graph.MaxDepth, func() {
		list(c, &s.Nodes, func(c *coder, n *graph.ShapeNodeRecord) {
			number(c, &n.Handle)
			number(c, &n.Type)
			numbers(c, &n.After)
			optional(c, &n.Child, codeShape)
		})
	})
}

// UserObject is a destructor of the program with a reference count.
type UserObject struct {
	Argument, Destroy, Count uint64
}

// code codes a user object.
func (u *UserObject) code(c *coder) {
	number(c, &u.Argument)
	number(c, &u.Destroy)
	number(c, &u.Count)
}
