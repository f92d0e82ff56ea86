package graphs

import (
	"github.com/phos-gpu/phos/daemon/gpu"
	"github.com/phos-gpu/phos/daemon/worker/session/code"
	"github.com/phos-gpu/phos/daemon/worker/session/copies"
	"github.com/phos-gpu/phos/daemon/worker/session/core"
	"github.com/phos-gpu/phos/daemon/worker/session/graph"
	"github.com/phos-gpu/phos/hijack/abi"
	"github.com/phos-gpu/phos/hijack/wire"
)

// addNode makes a node of a graph.
func (s *Graphs) addNode(g abi.Handle, dependencies wire.Words, op graph.Op) (abi.Handle, error) {
	h, err := s.hosted(g)
	if err != nil {
		return 0, err
	}
	after, err := s.nodes(dependencies)
	if err != nil {
		return 0, err
	}
	n, err := h.graph.Add(op, after)
	if err != nil {
		return 0, err
	}
	return n.Handle, nil
}

// setNode changes what a node does.
func (s *Graphs) setNode(node abi.Handle, op graph.Op) error {
	n, err := s.set.Node(node)
	if err != nil {
		return err
	}
	return n.SetOp(op)
}

// opOf returns what a node does, when that is of the wanted sort.
func opOf[O graph.Op](s *Graphs, node abi.Handle) (op O, err error) {
	n, err := s.set.Node(node)
	if err != nil {
		return op, err
	}
	op, ok := n.Op.(O)
	if !ok {
		return op, core.Invalid("get graph node parameters", "the node is a "+n.Op.Type().String()+" node")
	}
	return op, nil
}

func (s *Graphs) graphNodeFindInClone(
	_ *core.Call,
	in *wire.GraphNodeFindInClone,
	out *wire.GraphNodeFindInCloneReply,
) error {
	n, err := s.set.Node(in.HOriginalNode)
	if err != nil {
		return err
	}
	h, err := s.hosted(in.HClonedGraph)
	if err != nil {
		return err
	}
	found, err := h.graph.FindInClone(n)
	if err == nil {
		out.PhNode = found.Handle
	}
	return err
}

func (s *Graphs) graphNodeGetType(_ *core.Call, in *wire.GraphNodeGetType, out *wire.GraphNodeGetTypeReply) error {
	n, err := s.set.Node(in.HNode)
	if err == nil {
		out.Type = int32(n.Op.Type())
	}
	return err
}

func (s *Graphs) graphDestroyNode(_ *core.Call, in *wire.GraphDestroyNode) error {
	n, err := s.set.Node(in.HNode)
	if err != nil {
		return err
	}
	var gone []*graph.Graph // which the node takes along, at every depth
	if child, ok := n.Op.(graph.Child); ok {
		gone = append(child.Graph.Children(), child.Graph)
	}
	if err := n.Graph().Remove(n); err != nil {
		return err
	}
	for _, g := range gone {
		if h, err := s.hosted(g.Handle); err == nil {
			s.Destroy(h.object)
		}
	}
	return nil
}

// What graphNodes lists.
const (
	listNodes        = 0
	listRoots        = 1
	listEdges        = 2
	listDependencies = 3
	listDependents   = 4
)

func (s *Graphs) graphNodes(call *core.Call, in *wire.GraphNodes, out *wire.GraphNodesReply) error {
	first, second, err := s.listed(in)
	if err != nil {
		return err
	}
	out.Count = uint64(len(first))
	if in.What != listEdges {
		return s.PutHandles(call, in.Address, in.Capacity, handlesOf(first))
	}
	if err := s.PutHandles(call, in.Second, in.Capacity, handlesOf(second)); err != nil {
		return err
	}
	ends := call.Detached()
	if err := s.PutHandles(call, in.Address, in.Capacity, handlesOf(first)); err != nil || ends == nil {
		return err
	}
	starts := call.Detached()
	return call.Detach(func() error {
		if err := starts(); err != nil {
			return err
		}
		return ends()
	})
}

// listed returns the nodes that a call lists. Only edges have second: first[i] precedes second[i].
func (s *Graphs) listed(in *wire.GraphNodes) (first, second []*graph.Node, err error) {
	if in.What >= listDependencies {
		n, err := s.set.Node(in.Node)
		switch {
		case err != nil:
			return nil, nil, err
		case in.What == listDependencies:
			return n.Dependencies(), nil, nil
		case in.What == listDependents:
			return n.Dependents(), nil, nil
		}
		return nil, nil, core.Invalid("list graph nodes", "unknown list")
	}
	h, err := s.hosted(in.Graph)
	if err != nil {
		return nil, nil, err
	}
	switch in.What {
	case listNodes:
		return h.graph.Nodes(), nil, nil
	case listRoots:
		return h.graph.Roots(), nil, nil
	}
	first, second = h.graph.Edges()
	return first, second, nil
}

// edges calls f for each edge of a call, until one fails. What was done before stays done, as in
// the driver.
func (s *Graphs) edges(g abi.Handle, from, to wire.Words, f func(*graph.Graph, *graph.Node, *graph.Node) error) error {
	h, err := s.hosted(g)
	if err != nil {
		return err
	}
	starts, err := s.nodes(from)
	if err != nil {
		return err
	}
	ends, err := s.nodes(to)
	if err != nil {
		return err
	}
	if len(starts) != len(ends) {
		return core.Invalid("change graph dependencies", "as many starts as ends")
	}
	for i := range starts {
		if err := f(h.graph, starts[i], ends[i]); err != nil {
			return err
		}
	}
	return nil
}

func (s *Graphs) graphAddDependencies(_ *core.Call, in *wire.GraphAddDependencies) error {
	return s.edges(in.HGraph, in.From, in.To, (*graph.Graph).Connect)
}

func (s *Graphs) graphRemoveDependencies(_ *core.Call, in *wire.GraphRemoveDependencies) error {
	return s.edges(in.HGraph, in.From, in.To, (*graph.Graph).Disconnect)
}

func (s *Graphs) graphAddEmptyNode(
	_ *core.Call,
	in *wire.GraphAddEmptyNode,
	out *wire.GraphAddEmptyNodeReply,
) (err error) {
	out.PhGraphNode, err = s.addNode(in.HGraph, in.Dependencies, graph.Empty{})
	return err
}

// graphAddChildGraphNode gives the node a copy of the graph.
func (s *Graphs) graphAddChildGraphNode(
	_ *core.Call,
	in *wire.GraphAddChildGraphNode,
	out *wire.GraphAddChildGraphNodeReply,
) error {
	child, err := s.hosted(in.ChildGraph)
	if err != nil {
		return err
	}
	parent, err := s.hosted(in.HGraph)
	if err != nil {
		return err
	}
	copied := child.graph.Clone(s.nextGraph)
	if out.PhGraphNode, err = s.addNode(in.HGraph, in.Dependencies, graph.Child{Graph: copied}); err != nil {
		copied.Release()
		return err
	}
	s.addChildren(parent.graph, parent.object)
	return nil
}

func (s *Graphs) graphChildGraphNodeGetGraph(
	_ *core.Call,
	in *wire.GraphChildGraphNodeGetGraph,
	out *wire.GraphChildGraphNodeGetGraphReply,
) error {
	child, err := opOf[graph.Child](s, in.HNode)
	if err == nil {
		out.PhGraph = child.Graph.Handle
	}
	return err
}

func (s *Graphs) graphExecChildGraphNodeSetParams(_ *core.Call, in *wire.GraphExecChildGraphNodeSetParams) error {
	x, err := s.executable(in.HGraphExec)
	if err != nil {
		return err
	}
	h, err := s.hosted(in.ChildGraph)
	if err != nil {
		return err
	}
	ops, miss := x.plan.MatchChild(in.HNode, h.graph)
	if miss != nil {
		return core.Invalid("set executable child graph", "it differs in shape")
	}
	for step := range x.ops {
		if op, changed := ops[step]; changed {
			if err := s.replace(x, step, op); err != nil {
				return err
			}
		}
	}
	return nil
}

// kernelOp is the op of the arguments that every call about a kernel node has.
func (s *Graphs) kernelOp(f uint64, grid, block [3]uint32, shared uint32, params []byte) (graph.Kernel, error) {
	k := graph.Kernel{
		Function:    abi.Handle(f),
		Grid:        grid,
		Block:       block,
		SharedBytes: shared,
		Params:      s.Params.Keep(params),
	}
	o := s.Objects.Get(f)
	if o == nil || o.Kind != abi.KindFunction && o.Kind != abi.KindKernel {
		return k, &gpu.Error{
			Op:     "make kernel node",
			Code:   abi.InvalidValue,
			Detail: k.Function.String() + " is no function",
		}
	}
	if known, ok := o.State.(*code.Function); ok {
		return k, known.Accepts(&k, len(params))
	}
	return k, nil
}

func (s *Graphs) graphAddKernelNode(
	_ *core.Call,
	in *wire.GraphAddKernelNode,
	out *wire.GraphAddKernelNodeReply,
) error {
	op, err := s.kernelOp(
		in.Function,
		[3]uint32{in.GridX, in.GridY, in.GridZ},
		[3]uint32{in.BlockX, in.BlockY, in.BlockZ},
		in.SharedBytes,
		in.Params,
	)
	if err != nil {
		return err
	}
	out.Node, err = s.addNode(in.Graph, in.Dependencies, op)
	return err
}

func (s *Graphs) graphKernelNodeGet(
	call *core.Call,
	in *wire.GraphKernelNodeGet,
	out *wire.GraphKernelNodeGetReply,
) error {
	k, err := opOf[graph.Kernel](s, in.Node)
	if err != nil {
		return err
	}
	out.Function, out.SharedBytes, out.ParamBytes = uint64(k.Function), k.SharedBytes, uint64(len(k.Params))
	out.GridX, out.GridY, out.GridZ = k.Grid[0], k.Grid[1], k.Grid[2]
	out.BlockX, out.BlockY, out.BlockZ = k.Block[0], k.Block[1], k.Block[2]
	return s.Put(call, in.Address, in.Capacity, k.Params)
}

func (s *Graphs) graphKernelNodeSet(_ *core.Call, in *wire.GraphKernelNodeSet) error {
	op, err := s.kernelOp(
		in.Function,
		[3]uint32{in.GridX, in.GridY, in.GridZ},
		[3]uint32{in.BlockX, in.BlockY, in.BlockZ},
		in.SharedBytes,
		in.Params,
	)
	if err != nil {
		return err
	}
	if n, err := s.set.Node(in.Node); err == nil {
		op = op.As(n.Op)
	}
	return s.setNode(in.Node, op)
}

func (s *Graphs) graphExecKernelNodeSet(_ *core.Call, in *wire.GraphExecKernelNodeSet) error {
	op, err := s.kernelOp(
		in.Function,
		[3]uint32{in.GridX, in.GridY, in.GridZ},
		[3]uint32{in.BlockX, in.BlockY, in.BlockZ},
		in.SharedBytes,
		in.Params,
	)
	if err != nil {
		return err
	}
	if x, err := s.executable(in.Exec); err == nil {
		if step, found := x.plan.Index[in.Node]; found {
			op = op.As(x.ops[step])
		}
	}
	return s.replaceNode(in.Exec, in.Node, op)
}

func (s *Graphs) graphAddMemcpyNode(
	_ *core.Call,
	in *wire.GraphAddMemcpyNode,
	out *wire.GraphAddMemcpyNodeReply,
) (err error) {
	out.Node, err = s.addNode(in.Graph, in.Dependencies, copies.ParseCopy(&wire.MemcpyWait{
		DstKind: in.DstKind, Dst: in.Dst, DstPitch: in.DstPitch, DstSlice: in.DstSlice,
		SrcKind: in.SrcKind, Src: in.Src, SrcPitch: in.SrcPitch, SrcSlice: in.SrcSlice,
		Width: in.Width, Height: in.Height, Depth: in.Depth,
	}))
	return err
}

func (s *Graphs) graphMemcpyNodeGet(
	_ *core.Call,
	in *wire.GraphMemcpyNodeGet,
	out *wire.GraphMemcpyNodeGetReply,
) error {
	c, err := opOf[graph.Copy](s, in.Node)
	if err != nil {
		return err
	}
	out.Dst, out.DstPitch, out.DstSlice = c.Dst.Address, c.Dst.RowPitch, c.Dst.SlicePitch
	out.Src, out.SrcPitch, out.SrcSlice = c.Src.Address, c.Src.RowPitch, c.Src.SlicePitch
	out.Width, out.Height, out.Depth = c.Extent[0], c.Extent[1], c.Extent[2]
	if c.Dst.Program {
		out.DstKind = copies.InProgram
	}
	if c.Src.Program {
		out.SrcKind = copies.InProgram
	}
	return nil
}

func (s *Graphs) graphMemcpyNodeSet(_ *core.Call, in *wire.GraphMemcpyNodeSet) error {
	return s.setNode(in.Node, copies.ParseCopy(&wire.MemcpyWait{
		DstKind: in.DstKind, Dst: in.Dst, DstPitch: in.DstPitch, DstSlice: in.DstSlice,
		SrcKind: in.SrcKind, Src: in.Src, SrcPitch: in.SrcPitch, SrcSlice: in.SrcSlice,
		Width: in.Width, Height: in.Height, Depth: in.Depth,
	}))
}

func (s *Graphs) graphExecMemcpyNodeSet(_ *core.Call, in *wire.GraphExecMemcpyNodeSet) error {
	return s.replaceNode(in.Exec, in.Node, copies.ParseCopy(&wire.MemcpyWait{
		DstKind: in.DstKind, Dst: in.Dst, DstPitch: in.DstPitch, DstSlice: in.DstSlice,
		SrcKind: in.SrcKind, Src: in.Src, SrcPitch: in.SrcPitch, SrcSlice: in.SrcSlice,
		Width: in.Width, Height: in.Height, Depth: in.Depth,
	}))
}

// fillOp is the op of a memset node.
func fillOp(in *wire.Memset) (graph.Memset, error) {
	op := graph.Memset{Fill: gpu.Fill{
		Address: in.Address, RowPitch: in.Pitch, Pattern: in.Pattern,
		PatternBytes: uint8(in.PatternBytes), Columns: in.Columns, Rows: in.Rows,
	}}
	return op, copies.CheckFill(in.PatternBytes, op.Fill)
}

func (s *Graphs) graphAddMemsetNode(
	_ *core.Call,
	in *wire.GraphAddMemsetNode,
	out *wire.GraphAddMemsetNodeReply,
) error {
	op, err := fillOp(
		&wire.Memset{
			Address:      in.Address,
			Pitch:        in.Pitch,
			Pattern:      in.Pattern,
			PatternBytes: in.PatternBytes,
			Columns:      in.Columns,
			Rows:         in.Rows,
		},
	)
	if err != nil {
		return err
	}
	out.Node, err = s.addNode(in.Graph, in.Dependencies, op)
	return err
}

func (s *Graphs) graphMemsetNodeGet(
	_ *core.Call,
	in *wire.GraphMemsetNodeGet,
	out *wire.GraphMemsetNodeGetReply,
) error {
	m, err := opOf[graph.Memset](s, in.Node)
	if err == nil {
		out.Address, out.Pitch, out.Pattern = m.Address, m.RowPitch, m.Pattern
		out.PatternBytes, out.Columns, out.Rows = uint32(m.PatternBytes), m.Columns, m.Rows
	}
	return err
}

func (s *Graphs) graphMemsetNodeSet(_ *core.Call, in *wire.GraphMemsetNodeSet) error {
	op, err := fillOp(
		&wire.Memset{
			Address:      in.Address,
			Pitch:        in.Pitch,
			Pattern:      in.Pattern,
			PatternBytes: in.PatternBytes,
			Columns:      in.Columns,
			Rows:         in.Rows,
		},
	)
	if err != nil {
		return err
	}
	return s.setNode(in.Node, op)
}

func (s *Graphs) graphExecMemsetNodeSet(_ *core.Call, in *wire.GraphExecMemsetNodeSet) error {
	op, err := fillOp(
		&wire.Memset{
			Address:      in.Address,
			Pitch:        in.Pitch,
			Pattern:      in.Pattern,
			PatternBytes: in.PatternBytes,
			Columns:      in.Columns,
			Rows:         in.Rows,
		},
	)
	if err != nil {
		return err
	}
	return s.replaceNode(in.Exec, in.Node, op)
}

func (s *Graphs) graphAddHostNode(
	_ *core.Call,
	in *wire.GraphAddHostNode,
	out *wire.GraphAddHostNodeReply,
) (err error) {
	out.Node, err = s.addNode(in.Graph, in.Dependencies, graph.Host{Function: in.Function, UserData: in.UserData})
	return err
}

func (s *Graphs) graphHostNodeGet(_ *core.Call, in *wire.GraphHostNodeGet, out *wire.GraphHostNodeGetReply) error {
	h, err := opOf[graph.Host](s, in.Node)
	out.Function, out.UserData = h.Function, h.UserData
	return err
}

func (s *Graphs) graphHostNodeSet(_ *core.Call, in *wire.GraphHostNodeSet) error {
	return s.setNode(in.Node, graph.Host{Function: in.Function, UserData: in.UserData})
}

func (s *Graphs) graphExecHostNodeSet(_ *core.Call, in *wire.GraphExecHostNodeSet) error {
	return s.replaceNode(in.Exec, in.Node, graph.Host{Function: in.Function, UserData: in.UserData})
}

// eventOp checks that an event exists before a node names it.
func eventOp[O graph.Op](s *Graphs, event abi.Handle, op O) (O, error) {
	return op, s.streams.CheckEvent(event)
}

func (s *Graphs) graphAddEventRecordNode(
	_ *core.Call,
	in *wire.GraphAddEventRecordNode,
	out *wire.GraphAddEventRecordNodeReply,
) error {
	op, err := eventOp(s, in.Event, graph.EventRecord{Event: in.Event})
	if err != nil {
		return err
	}
	out.PhGraphNode, err = s.addNode(in.HGraph, in.Dependencies, op)
	return err
}

func (s *Graphs) graphAddEventWaitNode(
	_ *core.Call,
	in *wire.GraphAddEventWaitNode,
	out *wire.GraphAddEventWaitNodeReply,
) error {
	op, err := eventOp(s, in.Event, graph.EventWait{Event: in.Event})
	if err != nil {
		return err
	}
	out.PhGraphNode, err = s.addNode(in.HGraph, in.Dependencies, op)
	return err
}

func (s *Graphs) graphEventRecordNodeGetEvent(
	_ *core.Call,
	in *wire.GraphEventRecordNodeGetEvent,
	out *wire.GraphEventRecordNodeGetEventReply,
) error {
	op, err := opOf[graph.EventRecord](s, in.HNode)
	out.EventOut = op.Event
	return err
}

func (s *Graphs) graphEventRecordNodeSetEvent(_ *core.Call, in *wire.GraphEventRecordNodeSetEvent) error {
	op, err := eventOp(s, in.Event, graph.EventRecord{Event: in.Event})
	if err != nil {
		return err
	}
	return s.setNode(in.HNode, op)
}

func (s *Graphs) graphExecEventRecordNodeSetEvent(_ *core.Call, in *wire.GraphExecEventRecordNodeSetEvent) error {
	return s.replaceNode(in.HGraphExec, in.HNode, graph.EventRecord{Event: in.Event})
}

func (s *Graphs) graphEventWaitNodeGetEvent(
	_ *core.Call,
	in *wire.GraphEventWaitNodeGetEvent,
	out *wire.GraphEventWaitNodeGetEventReply,
) error {
	op, err := opOf[graph.EventWait](s, in.HNode)
	out.EventOut = op.Event
	return err
}

func (s *Graphs) graphEventWaitNodeSetEvent(_ *core.Call, in *wire.GraphEventWaitNodeSetEvent) error {
	op, err := eventOp(s, in.Event, graph.EventWait{Event: in.Event})
	if err != nil {
		return err
	}
	return s.setNode(in.HNode, op)
}

func (s *Graphs) graphExecEventWaitNodeSetEvent(_ *core.Call, in *wire.GraphExecEventWaitNodeSetEvent) error {
	return s.replaceNode(in.HGraphExec, in.HNode, graph.EventWait{Event: in.Event})
}
