package graphs

import (
	"fmt"
	"slices"

	"github.com/phos-gpu/phos/daemon/gpu"
	"github.com/phos-gpu/phos/daemon/worker/session/code"
	"github.com/phos-gpu/phos/daemon/worker/session/core"
	"github.com/phos-gpu/phos/daemon/worker/session/graph"
	"github.com/phos-gpu/phos/daemon/worker/session/object"
	"github.com/phos-gpu/phos/daemon/worker/session/saved"
	"github.com/phos-gpu/phos/hijack/abi"
	"github.com/phos-gpu/phos/hijack/wire"
)

// executable is a graph made ready to run in a context.
type executable struct {
	object  *object.Object
	context *core.Context
	code    gpu.Executable
	plan    *graph.Plan
	ops     []graph.Op // what each step does now
	off     map[int]bool
	flags   uint64
	// stale executables are instantiated again before the next launch.
	stale bool
	// last is the stream of the last launch, and launched is reached when that is done: launches of
	// one executable never overlap. What the stream does afterwards is not waited for.
	last       *core.Stream
	launched   gpu.Event
	references map[abi.Handle]uint32
}

// Flags of cuGraphInstantiate. The known ones (free on launch, upload, node priority) change
// nothing here; launches from the device are refused.
const (
	instantiateDeviceLaunch = 4
	instantiateKnown        = 1 | 2 | 8
)

func (s *Graphs) graphInstantiateWithFlags(
	call *core.Call,
	in *wire.GraphInstantiateWithFlags,
	out *wire.GraphInstantiateWithFlagsReply,
) error {
	c, err := s.Current(call)
	if err != nil {
		return err
	}
	h, err := s.hosted(in.HGraph)
	if err != nil {
		return err
	}
	if in.Flags&instantiateDeviceLaunch != 0 {
		return &gpu.Error{
			Op:     "instantiate graph",
			Code:   abi.NotSupported,
			Detail: "launches from the device are not built",
		}
	}
	if in.Flags&^instantiateKnown != 0 {
		return core.Invalid("instantiate graph", fmt.Sprintf("unknown flags %#x", in.Flags))
	}
	plan, err := h.graph.Plan()
	if err != nil {
		return err
	}
	x := &executable{context: c, plan: plan, off: map[int]bool{}, flags: in.Flags}
	for _, step := range plan.Steps {
		x.ops = append(x.ops, step.Op)
	}
	if x.code, err = s.instantiate(x); err != nil {
		return err
	}
	x.references = s.shareReferences(h.graph.References)
	x.object = s.Objects.Add(&object.Object{
		ID: uint64(s.Objects.NextHandle(abi.KindGraphExec)), Kind: abi.KindGraphExec,
		Maker: call.Maker(), Parent: c.Object, Needs: []*object.Object{h.object}, State: x,
	})
	out.PhGraphExec = x.object.Handle()
	return nil
}

// instantiate makes the backend's half of an executable.
func (s *Graphs) instantiate(x *executable) (gpu.Executable, error) {
	flat := &gpu.Graph{Nodes: make([]gpu.Node, len(x.ops))}
	for i, op := range x.ops {
		var work gpu.Work = gpu.Empty{}
		if !x.off[i] {
			var err error
			if work, err = s.work(x.context, op); err != nil {
				return nil, err
			}
		}
		flat.Nodes[i] = gpu.Node{Work: work, After: x.plan.Steps[i].After}
	}
	return x.context.Device.GPU.Instantiate(flat)
}

// work makes a backend's work of what a node does.
func (s *Graphs) work(c *core.Context, op graph.Op) (gpu.Work, error) {
	switch op := op.(type) {
	case graph.Kernel:
		f, err := s.code.Function(c, op.Function)
		if err != nil {
			return nil, err
		}
		return f.Work(&op), f.Accepts(&op, len(op.Params))
	case graph.Copy:
		return s.copies.CopyWork(c.Device, op, s.copies.GraphMemory())
	case graph.Memset:
		return s.copies.FillWork(c.Device, op.Fill)
	case graph.MemoryOps:
		return op.MemoryOps, s.copies.CheckMemoryOps(c.Device, op.MemoryOps)
	case graph.Host:
		return gpu.Call{Func: s.streams.HostFunction(c, wire.Callback{Kind: wire.CallbackHost, Function: op.Function, UserData: op.UserData})}, nil
	case graph.EventRecord:
		return s.streams.RecordInGraph(op.Event)
	case graph.EventWait:
		return s.streams.AwaitInGraph(op.Event)
	}
	return gpu.Empty{}, nil // empty nodes, and child nodes, which are inlined
}

func (x *executable) close(s *Graphs) {
	code := x.code
	s.reclaim.AfterAll(x.context.Device, func() { _ = code.Close() })
	if x.launched != nil {
		_ = x.launched.Close() // a fault is reported by the context
	}
	s.dropReferences(x.references)
}

func (s *Graphs) graphExecGetFlags(_ *core.Call, in *wire.GraphExecGetFlags, out *wire.GraphExecGetFlagsReply) error {
	x, err := s.executable(in.HGraphExec)
	if err == nil {
		out.Flags = x.flags
	}
	return err
}

// graphUpload has nothing to do: instantiating did it.
func (s *Graphs) graphUpload(call *core.Call, in *wire.GraphUpload) error {
	if _, err := s.executable(in.HGraphExec); err != nil {
		return err
	}
	_, err := s.Stream(call, in.HStream)
	return err
}

func (s *Graphs) graphLaunch(call *core.Call, in *wire.GraphLaunch) error {
	x, err := s.executable(in.HGraphExec)
	if err != nil {
		return err
	}
	st, err := s.Stream(call, in.HStream)
	if err != nil {
		return err
	}
	if st.Line.Capturing() {
		_, err := st.Line.Add(graph.Child{Graph: s.asGraph(x)})
		return err
	}
	if err := s.RequireUncaptured(st, "launch graph"); err != nil {
		return err
	}
	if st.Context.Device != x.context.Device {
		return core.Invalid("launch graph", "the stream is on another GPU")
	}
	if x.stale {
		if err := s.refresh(x); err != nil {
			return err
		}
	}
	if err := st.Order(); err != nil {
		return err
	}
	if x.last != nil && x.last != st {
		if err := st.Work.Submit(gpu.Await{Event: x.launched}); err != nil {
			return err
		}
	}
	return x.launch(st)
}

// launch gives a launch to a stream, and marks its end there.
func (x *executable) launch(st *core.Stream) (err error) {
	if x.launched == nil {
		if x.launched, err = st.Context.Device.GPU.NewEvent(gpu.EventOptions{}); err != nil {
			return err
		}
	}
	if err := x.code.Launch(st.Work); err != nil {
		return err
	}
	x.last = st
	return st.Submit(gpu.Record{Event: x.launched})
}

// refresh instantiates a stale executable again. Launches in flight keep the old code until done.
func (s *Graphs) refresh(x *executable) error {
	code, err := s.instantiate(x)
	if err != nil {
		return err
	}
	old := x.code
	s.reclaim.AfterAll(x.context.Device, func() { _ = old.Close() })
	x.code, x.stale = code, false
	return nil
}

// asGraph turns an executable back into a graph, flat, for launching it into a capture.
func (s *Graphs) asGraph(x *executable) *graph.Graph {
	g := s.set.NewGraph(s.nextGraph())
	nodes := make([]*graph.Node, len(x.ops))
	for i, op := range x.ops {
		if x.off[i] {
			op = graph.Empty{}
		}
		after := make([]*graph.Node, len(x.plan.Steps[i].After))
		for j, d := range x.plan.Steps[i].After {
			after[j] = nodes[d]
		}
		nodes[i], _ = g.Add(op, after) // cannot fail: the dependencies are of this graph, and each once
	}
	return g
}

func (s *Graphs) graphExecDestroy(_ *core.Call, in *wire.GraphExecDestroy) error {
	x, err := s.executable(in.HGraphExec)
	if err != nil {
		return err
	}
	s.Destroy(x.object)
	return nil
}

// replace changes what a step of an executable does, from the next launch on.
func (s *Graphs) replace(x *executable, step int, op graph.Op) error {
	if x.ops[step].Type() != op.Type() {
		return core.Invalid("set executable node parameters", "the node is a "+x.ops[step].Type().String()+" node")
	}
	work, err := s.work(x.context, op)
	if err != nil {
		return err
	}
	if !x.stale && !x.off[step] {
		if err := x.code.Update(step, work); err != nil {
			return err
		}
	}
	x.ops[step] = op
	return nil
}

// replaceNode is replace by the handle of the node in the graph that was instantiated.
func (s *Graphs) replaceNode(exec, node abi.Handle, op graph.Op) error {
	x, err := s.executable(exec)
	if err != nil {
		return err
	}
	step, found := x.plan.Index[node]
	if !found {
		return core.Invalid("set executable node parameters", node.String()+" is not part of it")
	}
	return s.replace(x, step, op)
}

func (s *Graphs) graphExecUpdate(_ *core.Call, in *wire.GraphExecUpdate, out *wire.GraphExecUpdateReply) error {
	x, err := s.executable(in.Exec)
	if err != nil {
		return err
	}
	h, err := s.hosted(in.Graph)
	if err != nil {
		return err
	}
	ops, miss := x.plan.Match(h.graph)
	if miss != nil {
		out.Result, out.ErrorNode = uint32(miss.Result), miss.Node
		return &gpu.Error{
			Op:     "update executable graph",
			Code:   abi.GraphExecUpdateFailure,
			Detail: "the graphs differ in shape",
		}
	}
	for step := range x.ops {
		op, changed := ops[step]
		if !changed {
			continue
		}
		if err := s.replace(x, step, op); err != nil {
			out.Result = uint32(graph.UpdateParameterChanged)
			return &gpu.Error{Op: "update executable graph", Code: abi.GraphExecUpdateFailure, Detail: err.Error()}
		}
	}
	return nil
}

func (s *Graphs) graphNodeSetEnabled(_ *core.Call, in *wire.GraphNodeSetEnabled) error {
	x, step, err := s.switchable(in.HGraphExec, in.HNode)
	if err != nil {
		return err
	}
	if off := in.IsEnabled == 0; off != x.off[step] {
		x.off[step], x.stale = off, true
	}
	return nil
}

func (s *Graphs) graphNodeGetEnabled(
	_ *core.Call,
	in *wire.GraphNodeGetEnabled,
	out *wire.GraphNodeGetEnabledReply,
) error {
	x, step, err := s.switchable(in.HGraphExec, in.HNode)
	if err == nil && !x.off[step] {
		out.IsEnabled = 1
	}
	return err
}

// switchable finds a node that can be switched off: a kernel, a copy or a memset.
func (s *Graphs) switchable(exec, node abi.Handle) (*executable, int, error) {
	x, err := s.executable(exec)
	if err != nil {
		return nil, 0, err
	}
	step, found := x.plan.Index[node]
	if !found || x.ops[step].Type() > graph.TypeMemset {
		return nil, 0, core.Invalid("switch graph node", "it is not a kernel, memcpy or memset node of the executable")
	}
	return x, step, nil
}

func (x *executable) Save(*core.Encoder) saved.State {
	out := &saved.Executable{
		Flags: x.flags, Stale: x.stale, Ops: x.ops, Plan: x.plan.Record(), References: graph.ListReferences(x.references),
	}
	for step := range x.ops {
		if x.off[step] {
			out.Off = append(out.Off, step)
		}
	}
	return out
}

func (s *Graphs) restoreExecutable(r *core.Decoder, o *object.Object, in *saved.Executable) (*executable, error) {
	c, err := core.ParentOf[*core.Context](o)
	if err != nil {
		return nil, err
	}
	x := &executable{
		object: o, context: c, ops: in.Ops, off: map[int]bool{}, flags: in.Flags, stale: in.Stale,
		references: graph.MapReferences(in.References),
	}
	if x.plan, err = graph.RestorePlan(&in.Plan, in.Ops); err != nil {
		return nil, err
	}
	for _, step := range in.Off {
		if step < 0 || step >= len(x.ops) {
			return nil, core.Damaged("it has no step %d", step)
		}
		x.off[step] = true
	}
	r.Instantiate = append(r.Instantiate, func() error { return s.restoreReady(r, x) })
	return x, nil
}

// restoreReady makes the backend's half of an executable. What its steps name was checked when they
// were made, and may be gone since: then the executable does what it would have done.
func (s *Graphs) restoreReady(r *core.Decoder, x *executable) (err error) {
	flat := &gpu.Graph{Nodes: make([]gpu.Node, len(x.ops))}
	for i, op := range x.ops {
		var work gpu.Work = gpu.Empty{}
		if !x.off[i] && !x.stale {
			if work, err = s.restoreWork(r, x, op); err != nil {
				return err
			}
		}
		flat.Nodes[i] = gpu.Node{Work: work, After: x.plan.Steps[i].After}
	}
	x.code, err = x.context.Device.GPU.Instantiate(flat)
	return err
}

// restoreWork makes the work again that an executable had of an op.
func (s *Graphs) restoreWork(r *core.Decoder, x *executable, op graph.Op) (gpu.Work, error) {
	d := x.context.Device
	switch op := op.(type) {
	case graph.Kernel:
		f := s.code.Present(x.context, op.Function)
		if f == nil {
			x.stale = true // the next launch says what is missing
			return gpu.Empty{}, nil
		}
		return f.Work(&op), f.AllowShared(op.SharedBytes)
	case graph.Copy:
		if slices.Contains(op.Extent[:], 0) {
			return gpu.Copy{}, nil
		}
		program := s.copies.GraphMemory()
		return gpu.Copy{Dst: s.copies.Resolve(d, op.Dst, program), Src: s.copies.Resolve(d, op.Src, program), Extent: op.Extent}, nil
	case graph.Memset:
		if op.Columns == 0 || op.Rows == 0 {
			return gpu.Fill{PatternBytes: op.PatternBytes}, nil
		}
		return op.Fill, nil
	case graph.MemoryOps:
		return op.MemoryOps, nil
	case graph.EventRecord:
		e, err := s.restoreEventWork(r, d, op.Event)
		return gpu.Record{Event: e}, err
	case graph.EventWait:
		e, err := s.restoreEventWork(r, d, op.Event)
		return gpu.Await{Event: e}, err
	}
	return s.work(x.context, op)
}

// restoreEventWork is the backend's half of an event. Where the event is gone it is one that will
// be closed when the executables are made, so that launches are refused because of it.
func (s *Graphs) restoreEventWork(r *core.Decoder, d *core.Device, h abi.Handle) (gpu.Event, error) {
	if event := s.streams.EventWork(h); event != nil {
		return event, nil
	}
	gone, err := d.GPU.NewEvent(gpu.EventOptions{})
	if err == nil {
		r.Finish = append(r.Finish, gone.Close)
	}
	return gone, err
}

// markStale makes executables that launch functions of a module look for them at their next launch,
// and not find them. What the functions work on goes with the module.
func (s *Graphs) markStale(m *code.Module) {
	for _, c := range s.Contexts {
		for o := range c.Object.Children(abi.KindGraphExec) {
			x := o.State.(*executable)
			x.stale = x.stale ||
				slices.ContainsFunc(x.ops, func(op graph.Op) bool { return s.code.Launches(x.context, op, m) })
		}
	}
}
