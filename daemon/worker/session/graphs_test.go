package session

import (
	"encoding/binary"
	"errors"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/phos-gpu/phos/daemon/gpu"
	"github.com/phos-gpu/phos/daemon/worker/session/copies"
	"github.com/phos-gpu/phos/daemon/worker/session/core"
	"github.com/phos-gpu/phos/daemon/worker/session/graph"
	"github.com/phos-gpu/phos/hijack/abi"
	"github.com/phos-gpu/phos/hijack/wire"
)

func (p *program) instantiate(g abi.Handle) abi.Handle {
	p.t.Helper()
	var out wire.GraphInstantiateWithFlagsReply
	p.ok(abi.CallGraphInstantiateWithFlags, &wire.GraphInstantiateWithFlags{HGraph: g}, &out)
	return out.PhGraphExec
}

func (p *program) begin(st abi.Handle) {
	p.t.Helper()
	p.ok(abi.CallStreamBeginCapture, &wire.StreamBeginCapture{HStream: st}, nil)
}

func (p *program) end(st abi.Handle) abi.Handle {
	p.t.Helper()
	var out wire.StreamEndCaptureReply
	p.ok(abi.CallStreamEndCapture, &wire.StreamEndCapture{HStream: st}, &out)
	return out.PhGraph
}

// kernelNode adds a kernel node with the number it notes.
func (p *program) kernelNode(g, f abi.Handle, argument uint64, after ...abi.Handle) abi.Handle {
	p.t.Helper()
	var out wire.GraphAddKernelNodeReply
	p.ok(abi.CallGraphAddKernelNode, &wire.GraphAddKernelNode{
		Graph: g, Function: uint64(f), GridX: 1, GridY: 1, GridZ: 1, BlockX: 1, BlockY: 1, BlockZ: 1,
		Dependencies: wire.MakeWords(after...), Params: binary.LittleEndian.AppendUint64(nil, argument),
	}, &out)
	return out.Node
}

func (p *program) graph() abi.Handle {
	p.t.Helper()
	var out wire.GraphCreateReply
	p.ok(abi.CallGraphCreate, &wire.GraphCreate{}, &out)
	return out.PhGraph
}

func (p *program) graphNodes(in *wire.GraphNodes) []abi.Handle {
	p.t.Helper()
	in.Address, in.Capacity = programBase, 100
	var out wire.GraphNodesReply
	p.ok(abi.CallGraphNodes, in, &out)
	handles := make([]abi.Handle, out.Count)
	for i := range handles {
		handles[i] = abi.Handle(binary.LittleEndian.Uint64(p.memory[8*i:]))
	}
	return handles
}

// TestCaptureReplaysWhatStreamsDid forks and joins two captured streams and runs the graph twice.
func TestCaptureReplaysWhatStreamsDid(t *testing.T) {
	p := newProgram(t)
	var order log
	note := order.kernel(p)
	device := p.alloc(4)
	a, b := p.stream(0), p.stream(0)
	forked, _ := p.event()
	joined, _ := p.event()
	p.begin(a)
	if p.capturing != 1 {
		t.Errorf("%d streams captured", p.capturing)
	}
	p.ok(abi.CallLaunch, launchOf(note, a, 1), nil)
	p.ok(abi.CallEventRecord, &wire.EventRecord{Event: forked, Stream: a}, nil)
	p.ok(abi.CallStreamWaitEvent, &wire.StreamWaitEvent{HStream: b, HEvent: forked}, nil)
	if p.capturing != 2 {
		t.Errorf("%d streams captured after the fork", p.capturing)
	}
	p.ok(
		abi.CallMemset,
		&wire.Memset{Address: device, Pattern: 9, PatternBytes: 1, Columns: 4, Rows: 1, Stream: b},
		nil,
	)
	p.ok(
		abi.CallMemcpyWait,
		&wire.MemcpyWait{DstKind: 1, Dst: programBase, Src: device, Width: 4, Height: 1, Depth: 1, Stream: b},
		nil,
	)
	p.ok(abi.CallEventRecord, &wire.EventRecord{Event: joined, Stream: b}, nil)
	p.ok(abi.CallStreamWaitEvent, &wire.StreamWaitEvent{HStream: a, HEvent: joined}, nil)
	p.ok(abi.CallLaunch, launchOf(note, a, 2), nil)
	var info wire.StreamCaptureInfoReply
	p.ok(abi.CallStreamCaptureInfo, &wire.StreamCaptureInfo{Stream: b, Address: programBase + 64, Capacity: 4}, &info)
	if info.Status != int32(graph.StatusActive) || info.Count != 1 || info.Graph == 0 || info.Id == 0 {
		t.Errorf("capture info %+v", info)
	}
	g := p.end(a)
	if p.capturing != 0 || g != info.Graph {
		t.Errorf("%d streams captured after the end, graph %v", p.capturing, g)
	}
	if len(order.got()) != 0 || p.memory[0] != 0 {
		t.Error("something ran while it was captured")
	}
	exec := p.instantiate(g)
	p.ok(abi.CallGraphDestroy, &wire.GraphDestroy{HGraph: g}, nil)
	for range 2 {
		p.memory[3] = 0
		p.ok(abi.CallGraphLaunch, &wire.GraphLaunch{HGraphExec: exec, HStream: a}, nil)
		syncContext(p)
		if p.memory[3] != 9 {
			t.Error("the copy to the program did not run")
		}
	}
	if got := order.got(); !slices.Equal(got, []uint64{1, 2, 1, 2}) {
		t.Errorf("order %v", got)
	}
	p.ok(abi.CallGraphExecDestroy, &wire.GraphExecDestroy{HGraphExec: exec}, nil)
	p.want(abi.InvalidValue, abi.CallGraphLaunch, &wire.GraphLaunch{HGraphExec: exec, HStream: a}, nil)
}

// TestCallsDuringCapture is the rules of capture as calls meet them; package graph has them all.
func TestCallsDuringCapture(t *testing.T) {
	inCapture := func(in wire.Reply, number abi.Call) func(p *program, st abi.Handle) error {
		return func(p *program, _ abi.Handle) error { return p.do(number, in, nil) }
	}
	for _, c := range []struct {
		name string
		do   func(p *program, st abi.Handle) error
		want error
		end  error
	}{
		{
			"allocate", inCapture(&wire.MemAlloc{Bytesize: 4}, abi.CallMemAlloc), abi.StreamCaptureUnsupported,
			abi.StreamCaptureInvalidated,
		},
		{"allocate, relaxed thread", func(p *program, _ abi.Handle) error {
			return p.doAs(1, graph.ModeRelaxed, abi.CallMemAlloc, &wire.MemAlloc{Bytesize: 4}, nil)
		}, nil, nil},
		{
			"synchronize the context", inCapture(&wire.CtxSynchronize{}, abi.CallCtxSynchronize), abi.StreamCaptureUnsupported,
			abi.StreamCaptureInvalidated,
		},
		{"synchronize the stream", func(p *program, st abi.Handle) error {
			return p.do(abi.CallStreamSynchronize, &wire.StreamSynchronize{HStream: st}, nil)
		}, abi.StreamCaptureUnsupported, abi.StreamCaptureInvalidated},
		{"launch in the legacy stream", func(p *program, _ abi.Handle) error {
			return p.do(abi.CallLaunch, launchOf(p.kernel("nothing", nil), 0, 1), nil)
		}, abi.StreamCaptureImplicit, abi.StreamCaptureInvalidated},
		{"query an event of the capture", func(p *program, st abi.Handle) error {
			e, _ := p.event()
			p.ok(abi.CallEventRecord, &wire.EventRecord{Event: e, Stream: st}, nil)
			return p.do(abi.CallEventQuery, &wire.EventQuery{Event: e}, nil)
		}, abi.CapturedEvent, abi.StreamCaptureInvalidated},
		{"wait for an event outside", func(p *program, st abi.Handle) error {
			e, _ := p.event()
			return p.do(abi.CallStreamWaitEvent, &wire.StreamWaitEvent{HStream: st, HEvent: e}, nil)
		}, abi.StreamCaptureIsolation, abi.StreamCaptureInvalidated},
		{"allocate in stream order", func(p *program, st abi.Handle) error {
			return p.do(abi.CallMemAllocFromPoolAsync, &wire.MemAllocFromPoolAsync{Bytesize: 4, HStream: st}, nil)
		}, abi.NotSupported, abi.StreamCaptureInvalidated},
		{"stream callback", func(p *program, st abi.Handle) error {
			return p.do(abi.CallHostFunc, &wire.HostFunc{Kind: wire.CallbackStream, Stream: st}, nil)
		}, abi.StreamCaptureUnsupported, abi.StreamCaptureInvalidated},
		{"end in another thread", func(p *program, st abi.Handle) error {
			return p.doAs(2, 0, abi.CallStreamEndCapture, &wire.StreamEndCapture{HStream: st}, nil)
		}, abi.StreamCaptureWrongThread, nil},
		{"destroy the stream", func(p *program, st abi.Handle) error {
			return p.do(abi.CallStreamDestroy, &wire.StreamDestroy{HStream: st}, nil)
		}, nil, abi.InvalidHandle},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := newProgram(t)
			st := p.stream(0)
			before := p.session.core.Objects.Len()
			p.begin(st)
			if err := c.do(p, st); !errors.Is(err, c.want) {
				t.Errorf("got %v, want %v", err, c.want)
			}
			p.want(c.end, abi.CallStreamEndCapture, &wire.StreamEndCapture{HStream: st}, nil)
			if p.capturing != 0 {
				t.Errorf("%d streams still captured", p.capturing)
			}
			if c.end != nil {
				for o := range p.session.core.Objects.Records() {
					if o.Kind == abi.KindGraph {
						t.Errorf("the failed capture left %v, %d objects before", o.Handle(), before)
					}
				}
			}
		})
	}
	p := newProgram(t)
	p.want(abi.StreamCaptureUnsupported, abi.CallStreamBeginCapture, &wire.StreamBeginCapture{}, nil)
}

func TestGraphByHand(t *testing.T) {
	p := newProgram(t)
	var order log
	note := order.kernel(p)
	g := p.graph()
	first := p.kernelNode(g, note, 1)
	second := p.kernelNode(g, note, 2)
	p.ok(
		abi.CallGraphAddDependencies,
		&wire.GraphAddDependencies{HGraph: g, From: wire.MakeWords(second), To: wire.MakeWords(first)},
		nil,
	)
	if got := p.graphNodes(&wire.GraphNodes{Graph: g, What: listRoots}); !slices.Equal(got, []abi.Handle{second}) {
		t.Errorf("roots %v", got)
	}
	if got := p.graphNodes(&wire.GraphNodes{Graph: g, What: listEdges, Second: programBase + 4096}); !slices.Equal(
		got,
		[]abi.Handle{second},
	) ||
		abi.Handle(binary.LittleEndian.Uint64(p.memory[4096:])) != first {
		t.Errorf("edges from %v", got)
	}
	if got := p.graphNodes(&wire.GraphNodes{Node: first, What: listDependencies}); !slices.Equal(
		got,
		[]abi.Handle{second},
	) {
		t.Errorf("dependencies %v", got)
	}
	exec := p.instantiate(g)
	run := func() []uint64 {
		before := len(order.got())
		p.ok(abi.CallGraphLaunch, &wire.GraphLaunch{HGraphExec: exec}, nil)
		syncContext(p)
		return order.got()[before:]
	}
	if got := run(); !slices.Equal(got, []uint64{2, 1}) {
		t.Errorf("ran %v", got)
	}
	set := &wire.GraphExecKernelNodeSet{
		Exec: exec, Node: first, Function: uint64(note), GridX: 1, GridY: 1, GridZ: 1, BlockX: 1, BlockY: 1, BlockZ: 1,
		Params: binary.LittleEndian.AppendUint64(nil, 100),
	}
	p.ok(abi.CallGraphExecKernelNodeSet, set, nil)
	if got := run(); !slices.Equal(got, []uint64{2, 100}) {
		t.Errorf("after setting parameters ran %v", got)
	}
	p.ok(abi.CallGraphNodeSetEnabled, &wire.GraphNodeSetEnabled{HGraphExec: exec, HNode: second}, nil)
	if got := run(); !slices.Equal(got, []uint64{100}) {
		t.Errorf("with a node off ran %v", got)
	}
	p.ok(abi.CallGraphNodeSetEnabled, &wire.GraphNodeSetEnabled{HGraphExec: exec, HNode: second, IsEnabled: 1}, nil)
	// The executable takes over a graph of the same shape, not another.
	var clone wire.GraphCloneReply
	p.ok(abi.CallGraphClone, &wire.GraphClone{OriginalGraph: g}, &clone)
	var result wire.GraphExecUpdateReply
	p.ok(abi.CallGraphExecUpdate, &wire.GraphExecUpdate{Exec: exec, Graph: clone.PhGraphClone}, &result)
	if got := run(); !slices.Equal(got, []uint64{2, 1}) {
		t.Errorf("after the update ran %v", got)
	}
	extra := p.kernelNode(clone.PhGraphClone, note, 3)
	p.want(
		abi.GraphExecUpdateFailure,
		abi.CallGraphExecUpdate,
		&wire.GraphExecUpdate{Exec: exec, Graph: clone.PhGraphClone},
		&result,
	)
	if result.Result != uint32(graph.UpdateTopologyChanged) || result.ErrorNode != extra {
		t.Errorf("update says %+v", result)
	}
	p.ok(abi.CallGraphDestroyNode, &wire.GraphDestroyNode{HNode: extra}, nil)
	p.want(abi.InvalidValue, abi.CallGraphNodeGetType, &wire.GraphNodeGetType{HNode: extra}, nil)
}

// TestLaunchesDoNotOverlap: launches of one executable in two streams run one after the other.
func TestLaunchesDoNotOverlap(t *testing.T) {
	p := newProgram(t)
	var running sync.Mutex
	var launches atomic.Int32
	alone := p.kernel("alone", func(gpu.Memory, []byte) error {
		launches.Add(1)
		if !running.TryLock() {
			t.Error("two launches of one executable overlap")
			return nil
		}
		runtime.Gosched()
		running.Unlock()
		return nil
	})
	g := p.graph()
	p.kernelNode(g, alone, 1)
	exec := p.instantiate(g)
	streams := []abi.Handle{p.stream(core.NonBlocking), p.stream(core.NonBlocking)}
	for i := range 400 {
		p.ok(abi.CallGraphLaunch, &wire.GraphLaunch{HGraphExec: exec, HStream: streams[i%2]}, nil)
	}
	syncContext(p)
	if n := launches.Load(); n != 400 {
		t.Errorf("%d launches have run, of 400", n)
	}
}

// TestLaunchesApart: a graph is launched in a stream that then waits for a gate. Its next launch,
// in another stream, does not wait for the gate, also if the graph's code is made again in between.
func TestLaunchesApart(t *testing.T) {
	for _, stale := range []bool{false, true} {
		p := newProgram(t)
		var order log
		note := order.kernel(p)
		g := p.graph()
		node := p.kernelNode(g, note, 1)
		exec := p.instantiate(g)
		gate, open := p.gate()
		t.Cleanup(open)
		first, second := p.stream(core.NonBlocking), p.stream(core.NonBlocking)
		p.ok(abi.CallGraphLaunch, &wire.GraphLaunch{HGraphExec: exec, HStream: first}, nil)
		p.ok(abi.CallLaunch, launchOf(gate, first, 0), nil)
		if stale {
			p.ok(abi.CallGraphNodeSetEnabled, &wire.GraphNodeSetEnabled{HGraphExec: exec, HNode: node}, nil)
			p.ok(abi.CallGraphNodeSetEnabled, &wire.GraphNodeSetEnabled{HGraphExec: exec, HNode: node, IsEnabled: 1}, nil)
		}
		p.ok(abi.CallGraphLaunch, &wire.GraphLaunch{HGraphExec: exec, HStream: second}, nil)
		p.eventually("both launches have run", func() bool { return len(order.got()) == 2 })
		open()
		syncContext(p)
	}
}

func TestChildGraphs(t *testing.T) {
	p := newProgram(t)
	var order log
	note := order.kernel(p)
	inner, outer := p.graph(), p.graph()
	p.kernelNode(inner, note, 5)
	first := p.kernelNode(outer, note, 1)
	var child wire.GraphAddChildGraphNodeReply
	p.ok(
		abi.CallGraphAddChildGraphNode,
		&wire.GraphAddChildGraphNode{HGraph: outer, ChildGraph: inner, Dependencies: wire.MakeWords(first)},
		&child,
	)
	p.kernelNode(outer, note, 9, child.PhGraphNode)
	var embedded wire.GraphChildGraphNodeGetGraphReply
	p.ok(abi.CallGraphChildGraphNodeGetGraph, &wire.GraphChildGraphNodeGetGraph{HNode: child.PhGraphNode}, &embedded)
	p.want(abi.InvalidValue, abi.CallGraphDestroy, &wire.GraphDestroy{HGraph: embedded.PhGraph}, nil)
	exec := p.instantiate(outer)
	p.ok(abi.CallGraphDestroy, &wire.GraphDestroy{HGraph: outer}, nil)
	p.want(abi.InvalidValue, abi.CallGraphNodes, &wire.GraphNodes{Graph: embedded.PhGraph}, nil)
	other := p.graph()
	p.kernelNode(other, note, 6)
	p.ok(
		abi.CallGraphExecChildGraphNodeSetParams,
		&wire.GraphExecChildGraphNodeSetParams{HGraphExec: exec, HNode: child.PhGraphNode, ChildGraph: other},
		nil,
	)
	p.ok(abi.CallGraphLaunch, &wire.GraphLaunch{HGraphExec: exec}, nil)
	syncContext(p)
	if got := order.got(); !slices.Equal(got, []uint64{1, 6, 9}) {
		t.Errorf("ran %v", got)
	}
	// Launched into a capture, an executable becomes a child graph.
	st := p.stream(0)
	p.begin(st)
	p.ok(abi.CallGraphLaunch, &wire.GraphLaunch{HGraphExec: exec, HStream: st}, nil)
	again := p.instantiate(p.end(st))
	p.ok(abi.CallGraphLaunch, &wire.GraphLaunch{HGraphExec: again}, nil)
	syncContext(p)
	if got := order.got(); !slices.Equal(got[3:], []uint64{1, 6, 9}) {
		t.Errorf("captured launch ran %v", got[3:])
	}
}

func TestUserObjects(t *testing.T) {
	p := newProgram(t)
	destroyed := make(chan wire.Callback, 1)
	p.callback = func(c wire.Callback) { destroyed <- c }
	var out wire.UserObjectCreateReply
	p.ok(abi.CallUserObjectCreate, &wire.UserObjectCreate{Ptr: 7, Destroy: 8, InitialRefcount: 1, Flags: 1}, &out)
	g := p.graph()
	p.ok(
		abi.CallGraphRetainUserObject,
		&wire.GraphRetainUserObject{Graph: g, Object: out.ObjectOut, Count: 1, Flags: 1},
		nil,
	)
	p.want(
		abi.InvalidValue,
		abi.CallGraphReleaseUserObject,
		&wire.GraphReleaseUserObject{Graph: g, Object: out.ObjectOut, Count: 2},
		nil,
	)
	exec := p.instantiate(g)
	p.ok(abi.CallGraphDestroy, &wire.GraphDestroy{HGraph: g}, nil)
	select {
	case <-destroyed:
		t.Fatal("destroyed while an executable holds it")
	case <-time.After(5 * time.Millisecond):
	}
	p.ok(abi.CallGraphExecDestroy, &wire.GraphExecDestroy{HGraphExec: exec}, nil)
	if c := <-destroyed; c.Function != 8 || c.UserData != 7 || c.Kind != wire.CallbackDestroy {
		t.Errorf("destructor %+v", c)
	}
	p.want(abi.InvalidValue, abi.CallUserObjectRetain, &wire.UserObjectRetain{Object: out.ObjectOut, Count: 1}, nil)
}

func TestModules(t *testing.T) {
	p := newProgram(t)
	m := p.load(".global counter .visible .entry b () .visible .entry a ()")
	var global wire.ModuleGetGlobalReply
	p.ok(abi.CallModuleGetGlobal, &wire.ModuleGetGlobal{Hmod: m, Name: "counter"}, &global)
	if global.Bytes != 100 {
		t.Errorf("global %+v", global)
	}
	p.ok(abi.CallMemset, &wire.Memset{Address: global.Dptr, PatternBytes: 1, Columns: 100, Rows: 1}, nil)
	p.want(abi.NotFound, abi.CallModuleGetGlobal, &wire.ModuleGetGlobal{Hmod: m, Name: "none"}, nil)
	p.want(abi.NotFound, abi.CallModuleGetFunction, &wire.ModuleGetFunction{Hmod: m, Name: "none"}, nil)
	var one, two wire.ModuleGetFunctionReply
	p.ok(abi.CallModuleGetFunction, &wire.ModuleGetFunction{Hmod: m, Name: "a"}, &one)
	p.ok(abi.CallModuleGetFunction, &wire.ModuleGetFunction{Hmod: m, Name: "a"}, &two)
	if one != two {
		t.Error("two handles for one function")
	}
	var list wire.ListFunctionsReply
	p.ok(abi.CallListFunctions, &wire.ListFunctions{Owner: uint64(m), Address: programBase, Capacity: 1}, &list)
	if list.Count != 1 || abi.Handle(binary.LittleEndian.Uint64(p.memory)) != one.Hfunc {
		t.Errorf("list %+v", list)
	}
	var info wire.FunctionInfoReply
	p.ok(
		abi.CallFunctionInfo,
		&wire.FunctionInfo{Function: uint64(one.Hfunc), Address: programBase, Capacity: 4096},
		&info,
	)
	if info.Size != 8+64+8+8+1 || binary.LittleEndian.Uint32(p.memory) != 1 || p.memory[info.Size-1] != 'a' {
		t.Errorf("function info of %d bytes: % x", info.Size, p.memory[:info.Size])
	}
	p.want(
		abi.InvalidValue,
		abi.CallLaunch,
		&wire.Launch{Function: uint64(one.Hfunc), GridX: 1, GridY: 1, GridZ: 1, BlockX: 1, BlockY: 1, BlockZ: 1},
		nil,
	)
	syncContext(p)
	p.ok(abi.CallModuleUnload, &wire.ModuleUnload{Hmod: m}, nil)
	p.want(abi.InvalidHandle, abi.CallLaunch, launchOf(one.Hfunc, 0, 1), nil)
	p.want(
		abi.InvalidValue,
		abi.CallMemset,
		&wire.Memset{Address: global.Dptr, PatternBytes: 1, Columns: 100, Rows: 1},
		nil,
	)
}

func TestBrokenCode(t *testing.T) {
	p := newProgram(t)
	for _, c := range []struct {
		name string
		in   *wire.ModuleLoad
		want abi.Result
		log  string
	}{
		{"refused text", p.image("broken", false), abi.InvalidPTX, "line 1, column 1: broken"},
		{"no bytes", &wire.ModuleLoad{Address: programBase}, abi.InvalidImage, ""},
		{"a length that is a lie", &wire.ModuleLoad{Address: programBase, Size: 1 << 30}, abi.InvalidValue, ""},
		{"more than any code has", &wire.ModuleLoad{Address: programBase, Size: 1 << 60}, abi.InvalidImage, ""},
	} {
		var out wire.ModuleLoadReply
		p.want(c.want, abi.CallModuleLoad, c.in, &out)
		if string(out.Log) != c.log {
			t.Errorf("%s: log %q", c.name, out.Log)
		}
	}
	if n := len(slices.Collect(p.session.core.Objects.Images.All())); n != 0 {
		t.Errorf("%d images kept", n)
	}
}

func TestLibraries(t *testing.T) {
	p := newProgram(t)
	var order log
	order.kernel(p)
	var loaded wire.ModuleLoadReply
	p.ok(abi.CallModuleLoad, p.image(".visible .entry note ()", true), &loaded)
	lib := abi.Handle(loaded.Handle)
	var kernel wire.LibraryGetKernelReply
	p.ok(abi.CallLibraryGetKernel, &wire.LibraryGetKernel{Library: lib, Name: "note"}, &kernel)
	p.want(abi.NotFound, abi.CallLibraryGetKernel, &wire.LibraryGetKernel{Library: lib, Name: "none"}, nil)
	// The same kernel is a function of each context, here of two GPUs.
	var second wire.DevicePrimaryCtxRetainReply
	p.ok(abi.CallDevicePrimaryCtxRetain, &wire.DevicePrimaryCtxRetain{Dev: 1}, &second)
	first := p.context
	var functions [2]wire.KernelGetFunctionReply
	for i, c := range []abi.Handle{first, second.Pctx} {
		p.context = c
		p.ok(abi.CallKernelGetFunction, &wire.KernelGetFunction{Kernel: kernel.PKernel}, &functions[i])
		p.ok(abi.CallLaunch, launchOf(kernel.PKernel, 0, uint64(i)), nil)
		syncContext(p)
	}
	if functions[0] == functions[1] || !slices.Equal(order.got(), []uint64{0, 1}) {
		t.Errorf("functions %v, ran %v", functions, order.got())
	}
	p.context = first
	p.ok(abi.CallLibraryUnload, &wire.LibraryUnload{Library: lib}, nil)
	p.want(abi.InvalidHandle, abi.CallLaunch, launchOf(kernel.PKernel, 0, 1), nil)
	p.want(abi.InvalidHandle, abi.CallLaunch, launchOf(functions[0].PFunc, 0, 1), nil)
	for _, p.context = range []abi.Handle{first, second.Pctx} {
		syncContext(p) // its modules go when the work before the unloading is done
	}
	if p.backend.modules != 1 { // that of order.kernel
		t.Errorf("%d modules loaded", p.backend.modules)
	}
}

// TestFaultsAreSticky: after a fault every way of waiting says so, and what waits is let go.
func TestFaultsAreSticky(t *testing.T) {
	p := newProgram(t)
	bad := p.kernel("bad", func(gpu.Memory, []byte) error { return abi.IllegalAddress })
	event, word := p.event()
	p.start(abi.CallLaunch, launchOf(bad, 0, 1))
	p.do(abi.CallEventRecord, &wire.EventRecord{Event: event, Count: 1}, nil)
	p.want(abi.IllegalAddress, abi.CallCtxSynchronize, &wire.CtxSynchronize{}, nil)
	p.want(abi.IllegalAddress, abi.CallStreamSynchronize, &wire.StreamSynchronize{}, nil)
	p.mu.Lock()
	if !slices.Contains(p.failures, abi.IllegalAddress) || p.words[word] != 1 {
		t.Errorf("failures %v, word %d", p.failures, p.words[word])
	}
	p.mu.Unlock()
	// Only this GPU is poisoned, and resetting it heals it.
	p.ok(abi.CallDevicePrimaryCtxReset, &wire.DevicePrimaryCtxReset{}, nil)
	p.ok(abi.CallDevicePrimaryCtxRetain, &wire.DevicePrimaryCtxRetain{}, nil)
	syncContext(p)
}

func TestHostileFrames(t *testing.T) {
	p := newProgram(t)
	for _, number := range abi.Calls() {
		for _, payload := range [][]byte{nil, make([]byte, 7), slices.Repeat([]byte{0xff}, 256), make([]byte, 256)} {
			p.sequence++
			p.session.Dispatch(
				&Call{Number: number, Sequence: p.sequence, Context: uint32(p.context), Payload: payload},
			)
		}
	}
	p.session.Dispatch(&Call{Number: 9999, Payload: make([]byte, 64)})
}

// TestGraphCopyFails captures a copy from memory that is not there: the launch can tell
// only later calls.
func TestGraphCopyFails(t *testing.T) {
	p := newProgram(t)
	address, stream := p.alloc(4096), p.stream(0)
	copyIn := &wire.MemcpyWait{
		Dst:     address,
		SrcKind: copies.InProgram,
		Src:     1,
		Width:   100,
		Height:  1,
		Depth:   1,
		Stream:  stream,
	}
	p.begin(stream)
	p.ok(abi.CallMemcpyWait, copyIn, nil)
	exec := p.instantiate(p.end(stream))
	p.start(abi.CallGraphLaunch, &wire.GraphLaunch{HGraphExec: exec, HStream: stream})
	syncContext(p)
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.failures) != 1 {
		t.Errorf("errors that were stored: %v", p.failures)
	}
}

// FuzzDispatch sends any bytes as any call: a session answers or refuses, and never panics.
func FuzzDispatch(f *testing.F) {
	for _, number := range []abi.Call{
		abi.CallMemAlloc, abi.CallLaunch, abi.CallGraphAddKernelNode, abi.CallMemcpyWait,
		abi.CallModuleGetFunction,
	} {
		f.Add(uint16(number), make([]byte, 64))
		f.Add(uint16(number), slices.Repeat([]byte{1, 0, 0, 0, 0, 0x70, 0, 0}, 16))
	}
	f.Fuzz(func(t *testing.T, number uint16, payload []byte) {
		p := newProgram(t)
		p.session.Dispatch(
			&Call{Number: abi.Call(number), Sequence: 1000, Context: uint32(p.context), Payload: payload},
		)
		p.session.Dispatch(
			&Call{Number: abi.CallCtxSynchronize, Sequence: 1001, Context: uint32(p.context), Payload: make([]byte, 8)},
		)
	})
}
