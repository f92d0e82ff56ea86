package session

import (
	"encoding/binary"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"

	"github.com/phos-gpu/phos/daemon/gpu"
	"github.com/phos-gpu/phos/daemon/gpu/soft/model"
	"github.com/phos-gpu/phos/daemon/worker/session/graph"
	"github.com/phos-gpu/phos/hijack/abi"
	"github.com/phos-gpu/phos/hijack/wire"
)

// messages are the arguments of every call of the session that has any.
var messages = map[abi.Call]wire.Message{
	abi.CallDeviceGetDefaultMemPool: &wire.DeviceGetDefaultMemPool{}, abi.CallDeviceGetMemPool: &wire.DeviceGetMemPool{},
	abi.CallDeviceSetMemPool: &wire.DeviceSetMemPool{}, abi.CallDevicePrimaryCtxRetain: &wire.DevicePrimaryCtxRetain{},
	abi.CallDevicePrimaryCtxRelease: &wire.DevicePrimaryCtxRelease{}, abi.CallDevicePrimaryCtxReset: &wire.DevicePrimaryCtxReset{},
	abi.CallDevicePrimaryCtxSetFlags: &wire.DevicePrimaryCtxSetFlags{}, abi.CallDevicePrimaryCtxGetState: &wire.DevicePrimaryCtxGetState{},
	abi.CallCtxCreate: &wire.CtxCreate{}, abi.CallCtxDestroy: &wire.CtxDestroy{}, abi.CallCtxGetLimit: &wire.CtxGetLimit{},
	abi.CallCtxSetLimit: &wire.CtxSetLimit{}, abi.CallCtxSynchronize: &wire.CtxSynchronize{},
	abi.CallCtxEnablePeerAccess: &wire.CtxEnablePeerAccess{}, abi.CallCtxDisablePeerAccess: &wire.CtxDisablePeerAccess{},
	abi.CallMemAlloc: &wire.MemAlloc{}, abi.CallMemAllocPitch: &wire.MemAllocPitch{}, abi.CallMemFree: &wire.MemFree{},
	abi.CallMemAllocManaged: &wire.MemAllocManaged{}, abi.CallMemHostAlloc: &wire.MemHostAlloc{}, abi.CallMemFreeHost: &wire.MemFreeHost{},
	abi.CallMemAllocFromPoolAsync: &wire.MemAllocFromPoolAsync{}, abi.CallMemFreeAsync: &wire.MemFreeAsync{},
	abi.CallMemPoolCreate: &wire.MemPoolCreate{}, abi.CallMemPoolDestroy: &wire.MemPoolDestroy{}, abi.CallMemPoolTrimTo: &wire.MemPoolTrimTo{},
	abi.CallMemAddressReserve: &wire.MemAddressReserve{}, abi.CallMemAddressFree: &wire.MemAddressFree{}, abi.CallVmmCreate: &wire.VmmCreate{},
	abi.CallMemRelease: &wire.MemRelease{}, abi.CallVmmMap: &wire.VmmMap{}, abi.CallMemUnmap: &wire.MemUnmap{},
	abi.CallVmmSetAccess: &wire.VmmSetAccess{}, abi.CallMemRetainAllocationHandle: &wire.MemRetainAllocationHandle{},
	abi.CallVmmProperties: &wire.VmmProperties{}, abi.CallHostRegister: &wire.HostRegister{}, abi.CallHostUnregister: &wire.HostUnregister{},
	abi.CallMemPoolSetAttribute: &wire.MemPoolSetAttribute{}, abi.CallMemPoolGetAttribute: &wire.MemPoolGetAttribute{},
	abi.CallEventCreate: &wire.EventCreate{}, abi.CallEventRecord: &wire.EventRecord{}, abi.CallEventQuery: &wire.EventQuery{},
	abi.CallEventSynchronize: &wire.EventSynchronize{}, abi.CallEventDestroy: &wire.EventDestroy{},
	abi.CallEventElapsedTime: &wire.EventElapsedTime{}, abi.CallStreamCreateWithPriority: &wire.StreamCreateWithPriority{},
	abi.CallStreamDestroy: &wire.StreamDestroy{}, abi.CallStreamQuery: &wire.StreamQuery{}, abi.CallStreamSynchronize: &wire.StreamSynchronize{},
	abi.CallStreamWaitEvent: &wire.StreamWaitEvent{}, abi.CallStreamGetPriority: &wire.StreamGetPriority{},
	abi.CallStreamGetFlags: &wire.StreamGetFlags{}, abi.CallStreamGetId: &wire.StreamGetId{}, abi.CallStreamGetCtx: &wire.StreamGetCtx{},
	abi.CallStreamGetDevice: &wire.StreamGetDevice{}, abi.CallHostFunc: &wire.HostFunc{}, abi.CallCallbackDone: &wire.CallbackDone{},
	abi.CallStreamBeginCapture: &wire.StreamBeginCapture{}, abi.CallStreamEndCapture: &wire.StreamEndCapture{},
	abi.CallStreamBeginCaptureToGraph: &wire.StreamBeginCaptureToGraph{}, abi.CallStreamCaptureInfo: &wire.StreamCaptureInfo{},
	abi.CallStreamUpdateCaptureDependencies: &wire.StreamUpdateCaptureDependencies{},
	abi.CallModuleLoad:                      &wire.ModuleLoad{}, abi.CallModuleUnload: &wire.ModuleUnload{}, abi.CallModuleGetFunction: &wire.ModuleGetFunction{},
	abi.CallModuleGetGlobal: &wire.ModuleGetGlobal{}, abi.CallModuleGetFunctionCount: &wire.ModuleGetFunctionCount{},
	abi.CallListFunctions: &wire.ListFunctions{}, abi.CallFunctionInfo: &wire.FunctionInfo{}, abi.CallFuncGetModule: &wire.FuncGetModule{},
	abi.CallFuncSetAttribute: &wire.FuncSetAttribute{}, abi.CallLibraryUnload: &wire.LibraryUnload{}, abi.CallLibraryGetModule: &wire.LibraryGetModule{},
	abi.CallLibraryGetKernel: &wire.LibraryGetKernel{}, abi.CallLibraryGetGlobal: &wire.LibraryGetGlobal{},
	abi.CallLibraryGetManaged: &wire.LibraryGetManaged{}, abi.CallLibraryGetKernelCount: &wire.LibraryGetKernelCount{},
	abi.CallKernelGetFunction: &wire.KernelGetFunction{}, abi.CallKernelGetLibrary: &wire.KernelGetLibrary{}, abi.CallLinkCheck: &wire.LinkCheck{},
	abi.CallLaunch: &wire.Launch{}, abi.CallOccupancyMaxActiveBlocksPerMultiprocessorWithFlags: &wire.OccupancyMaxActiveBlocksPerMultiprocessorWithFlags{},
	abi.CallOccupancyAvailableDynamicSMemPerBlock: &wire.OccupancyAvailableDynamicSMemPerBlock{},
	abi.CallOccupancyMaxActiveClusters:            &wire.OccupancyMaxActiveClusters{}, abi.CallMemcpy: &wire.Memcpy{}, abi.CallMemcpyWait: &wire.MemcpyWait{},
	abi.CallMemcpyInline: &wire.MemcpyInline{}, abi.CallMemset: &wire.Memset{}, abi.CallPeerOrder: &wire.PeerOrder{}, abi.CallGraphCreate: &wire.GraphCreate{},
	abi.CallGraphDestroy: &wire.GraphDestroy{}, abi.CallGraphClone: &wire.GraphClone{}, abi.CallGraphNodeFindInClone: &wire.GraphNodeFindInClone{},
	abi.CallGraphNodeGetType: &wire.GraphNodeGetType{}, abi.CallGraphDestroyNode: &wire.GraphDestroyNode{}, abi.CallGraphNodes: &wire.GraphNodes{},
	abi.CallGraphAddDependencies: &wire.GraphAddDependencies{}, abi.CallGraphRemoveDependencies: &wire.GraphRemoveDependencies{},
	abi.CallGraphAddEmptyNode: &wire.GraphAddEmptyNode{}, abi.CallGraphAddChildGraphNode: &wire.GraphAddChildGraphNode{},
	abi.CallGraphAddEventRecordNode: &wire.GraphAddEventRecordNode{}, abi.CallGraphAddEventWaitNode: &wire.GraphAddEventWaitNode{},
	abi.CallGraphAddKernelNode: &wire.GraphAddKernelNode{}, abi.CallGraphKernelNodeGet: &wire.GraphKernelNodeGet{},
	abi.CallGraphKernelNodeSet: &wire.GraphKernelNodeSet{}, abi.CallGraphExecKernelNodeSet: &wire.GraphExecKernelNodeSet{},
	abi.CallGraphAddMemcpyNode: &wire.GraphAddMemcpyNode{}, abi.CallGraphMemcpyNodeGet: &wire.GraphMemcpyNodeGet{},
	abi.CallGraphMemcpyNodeSet: &wire.GraphMemcpyNodeSet{}, abi.CallGraphExecMemcpyNodeSet: &wire.GraphExecMemcpyNodeSet{},
	abi.CallGraphAddMemsetNode: &wire.GraphAddMemsetNode{}, abi.CallGraphMemsetNodeGet: &wire.GraphMemsetNodeGet{},
	abi.CallGraphMemsetNodeSet: &wire.GraphMemsetNodeSet{}, abi.CallGraphExecMemsetNodeSet: &wire.GraphExecMemsetNodeSet{},
	abi.CallGraphAddHostNode: &wire.GraphAddHostNode{}, abi.CallGraphHostNodeGet: &wire.GraphHostNodeGet{},
	abi.CallGraphHostNodeSet: &wire.GraphHostNodeSet{}, abi.CallGraphExecHostNodeSet: &wire.GraphExecHostNodeSet{},
	abi.CallGraphChildGraphNodeGetGraph:      &wire.GraphChildGraphNodeGetGraph{},
	abi.CallGraphExecChildGraphNodeSetParams: &wire.GraphExecChildGraphNodeSetParams{},
	abi.CallGraphEventRecordNodeGetEvent:     &wire.GraphEventRecordNodeGetEvent{},
	abi.CallGraphEventRecordNodeSetEvent:     &wire.GraphEventRecordNodeSetEvent{},
	abi.CallGraphExecEventRecordNodeSetEvent: &wire.GraphExecEventRecordNodeSetEvent{},
	abi.CallGraphEventWaitNodeGetEvent:       &wire.GraphEventWaitNodeGetEvent{},
	abi.CallGraphEventWaitNodeSetEvent:       &wire.GraphEventWaitNodeSetEvent{},
	abi.CallGraphExecEventWaitNodeSetEvent:   &wire.GraphExecEventWaitNodeSetEvent{},
	abi.CallGraphNodeSetEnabled:              &wire.GraphNodeSetEnabled{}, abi.CallGraphNodeGetEnabled: &wire.GraphNodeGetEnabled{},
	abi.CallGraphInstantiateWithFlags: &wire.GraphInstantiateWithFlags{}, abi.CallGraphExecGetFlags: &wire.GraphExecGetFlags{},
	abi.CallGraphUpload: &wire.GraphUpload{}, abi.CallGraphLaunch: &wire.GraphLaunch{}, abi.CallGraphExecDestroy: &wire.GraphExecDestroy{},
	abi.CallGraphExecUpdate: &wire.GraphExecUpdate{}, abi.CallGraphDot: &wire.GraphDot{}, abi.CallUserObjectCreate: &wire.UserObjectCreate{},
	abi.CallUserObjectRetain: &wire.UserObjectRetain{}, abi.CallUserObjectRelease: &wire.UserObjectRelease{},
	abi.CallGraphRetainUserObject: &wire.GraphRetainUserObject{}, abi.CallGraphReleaseUserObject: &wire.GraphReleaseUserObject{},
	abi.CallLaunchWith: &wire.LaunchWith{}, abi.CallOccupancyClusters: &wire.OccupancyClusters{}, abi.CallTensorMap: &wire.TensorMap{},
	abi.CallTensorMapReplace: &wire.TensorMapReplace{}, abi.CallGraphNodeAttributeGet: &wire.GraphNodeAttributeGet{},
	abi.CallGraphNodeAttributeSet: &wire.GraphNodeAttributeSet{}, abi.CallGraphKernelNodeCopyAttributes: &wire.GraphKernelNodeCopyAttributes{},
	abi.CallMemGetInfo: nil, abi.CallPing: nil,
}

// destructive calls take much away; a program that makes them as often as others has nothing.
var destructive = map[abi.Call]int{
	abi.CallDevicePrimaryCtxReset: 60, abi.CallDevicePrimaryCtxRelease: 20, abi.CallCtxDestroy: 3, abi.CallModuleUnload: 15, abi.CallLibraryUnload: 15,
	abi.CallGraphDestroy: 6, abi.CallGraphExecDestroy: 6, abi.CallStreamDestroy: 6, abi.CallEventDestroy: 4, abi.CallMemFree: 3,
	abi.CallMemPoolDestroy: 4, abi.CallGraphDestroyNode: 4, abi.CallStreamBeginCaptureToGraph: 3, abi.CallLinkCheck: 6,
	abi.CallMemUnmap: 2, abi.CallMemRelease: 2, abi.CallMemAddressFree: 2,
}

// favourites are made more often.
var favourites = []abi.Call{
	abi.CallLaunch, abi.CallGraphLaunch, abi.CallGraphInstantiateWithFlags, abi.CallGraphAddKernelNode, abi.CallGraphAddMemsetNode,
	abi.CallGraphAddMemcpyNode, abi.CallEventRecord, abi.CallStreamEndCapture, abi.CallStreamEndCapture, abi.CallGraphExecUpdate, abi.CallModuleLoad,
	abi.CallMemcpyWait, abi.CallMemcpyInline, abi.CallGraphAddChildGraphNode, abi.CallModuleGetFunction, abi.CallLibraryGetKernel, abi.CallGraphClone,
	abi.CallStreamBeginCapture, abi.CallStreamUpdateCaptureDependencies, abi.CallGraphExecKernelNodeSet, abi.CallGraphNodeSetEnabled, abi.CallGraphExecChildGraphNodeSetParams,
	abi.CallGraphAddEventRecordNode, abi.CallGraphAddEventWaitNode, abi.CallGraphAddHostNode, abi.CallEventCreate,
	abi.CallVmmCreate, abi.CallVmmMap, abi.CallVmmSetAccess, abi.CallGraphExecMemsetNodeSet, abi.CallGraphKernelNodeCopyAttributes,
}

// caller makes up calls that make sense more often than not.
type caller struct {
	*rand.Rand
	handles   map[abi.Kind][]uint64
	addresses []uint64 // of device memory and variables
	pinned    []uint64
	records   uint64
	reserved  []uint64
	// nodes are those that were added, of what type and to which graph; graphs are those of
	// executables.
	nodes  []madeNode
	graphs map[uint64]uint64
	// wanted is what the call being made up is about.
	wanted struct {
		node        graph.Type
		graph, exec uint64
		child       uint64 // the second graph
		at          uint64 // among the reserved addresses, or of memory to register
		open        bool   // GPU 0 may read and write there
	}
}

func newCaller(seed uint64) *caller {
	return &caller{Rand: rand.New(rand.NewPCG(seed, 7)), handles: map[abi.Kind][]uint64{}, graphs: map[uint64]uint64{}}
}

type madeNode struct {
	handle, graph, child uint64
	kind                 graph.Type
}

// typeOf is the type of node that a call is about, TypeEmpty for any.
func typeOf(number abi.Call) graph.Type {
	for _, rule := range []struct {
		part string
		kind graph.Type
	}{
		{"KernelNode", graph.TypeKernel},
		{"NodeAttribute", graph.TypeKernel},
		{"MemcpyNode", graph.TypeMemcpy},
		{"MemsetNode", graph.TypeMemset},
		{"HostNode", graph.TypeHost},
		{"ChildGraph", graph.TypeChild},
		{"EventRecordNode", graph.TypeEventRecord},
		{"EventWaitNode", graph.TypeEventWait},
	} {
		if strings.Contains(number.String(), rule.part) {
			return rule.kind
		}
	}
	return graph.TypeEmpty
}

// made notes what a call has made of what it was about.
func (c *caller) made(number abi.Call, data []byte) {
	switch number {
	case abi.CallVmmSetAccess, abi.CallMemUnmap, abi.CallHostRegister, abi.CallHostUnregister:
		at := c.wanted.at
		c.addresses = slices.DeleteFunc(c.addresses, func(address uint64) bool { return address == at })
		if c.wanted.open {
			c.addresses = append(c.addresses, at)
		}
	default:
	}
	if len(data) < 8 {
		return
	}
	switch h := binary.LittleEndian.Uint64(data); {
	case number == abi.CallMemAddressReserve:
		c.reserved = append(c.reserved, h)
	case number == abi.CallGraphInstantiateWithFlags:
		c.graphs[h] = c.wanted.graph
	case strings.Contains(number.String(), "raphAdd") && abi.Handle(h).Kind() == abi.KindGraphNode:
		c.nodes = append(c.nodes, madeNode{h, c.wanted.graph, c.wanted.child, typeOf(number)})
	}
}

// node picks one of the graph and of the type that the call is about, if it can.
func (c *caller) node(anyType bool) uint64 {
	in := c.wanted.graph
	if c.wanted.exec != 0 {
		in = c.graphs[c.wanted.exec]
	}
	var fit []madeNode
	for _, n := range c.nodes {
		if (in == 0 || n.graph == in) && (anyType || c.wanted.node == graph.TypeEmpty || n.kind == c.wanted.node) {
			fit = append(fit, n)
		}
	}
	if len(fit) == 0 || c.IntN(10) == 0 {
		return latest(c, c.handles[abi.KindGraphNode])
	}
	n := latest(c, fit)
	if c.wanted.exec != 0 {
		c.wanted.child = n.child
	}
	return n.handle
}

// learn remembers what a reply or an answer in memory names.
func (c *caller) learn(data []byte) {
	allocated, _ := gpu.SplitWindow(gpu.DefaultWindow(0, 1))
	for ; len(data) >= 8; data = data[8:] {
		v := binary.LittleEndian.Uint64(data)
		switch kind := abi.Handle(v).Kind(); {
		case kind != abi.KindNone:
			c.handles[kind] = append(c.handles[kind], v)
		case allocated.Contains(gpu.Range{Address: v, Bytes: 1}): // nothing is at reserved addresses yet
			c.addresses = append(c.addresses, v)
		case v>>44 == 6:
			c.pinned = append(c.pinned, v)
		}
	}
}

// latest prefers what came last.
func latest[T any](c *caller, list []T) (v T) {
	if len(list) == 0 {
		return v
	}
	at := len(list) - 1
	for at > 0 && c.IntN(3) > 0 {
		at--
	}
	if c.IntN(3) == 0 {
		at = c.IntN(len(list))
	}
	return list[at]
}

func (c *caller) call() abi.Call {
	all := abi.Calls()
	for {
		number := all[c.IntN(len(all))]
		if c.IntN(2) == 0 {
			number = favourites[c.IntN(len(favourites))]
		}
		if _, known := messages[number]; known && (destructive[number] == 0 || c.IntN(destructive[number]) == 0) {
			return number
		}
	}
}

// kindsOf says which handle a field wants, by its name.
func kindsOf(name string) abi.Kind {
	for _, rule := range []struct {
		part string
		kind abi.Kind
	}{
		{"stream", abi.KindStream},
		{"event", abi.KindEvent},
		{"hstart", abi.KindEvent},
		{"hend", abi.KindEvent},
		{"exec", abi.KindGraphExec},
		{"node", abi.KindGraphNode},
		{"graph", abi.KindGraph},
		{"pool", abi.KindMemoryPool},
		{"object", abi.KindUserObject},
		{"ctx", abi.KindContext},
		{"context", abi.KindContext},
		{"mod", abi.KindModule},
		{"lib", abi.KindLibrary},
		{"kernel", abi.KindKernel},
		{"func", abi.KindFunction},
		{"handle", abi.KindAllocation},
		{"dst", abi.KindGraphNode},
		{"src", abi.KindGraphNode},
	} {
		if strings.Contains(name, rule.part) {
			return rule.kind
		}
	}
	return abi.KindNone
}

func (c *caller) handle(kind abi.Kind) uint64 {
	switch {
	case c.IntN(50) == 0:
		return uint64(abi.NewHandle(abi.Kind(1+c.IntN(int(abi.LastKind))), uint32(1+c.IntN(60))))
	case kind == abi.KindStream && c.IntN(4) == 0:
		return uint64(c.IntN(3))
	case kind == abi.KindContext && c.IntN(2) == 0:
		return 0
	case kind == abi.KindFunction && c.IntN(2) == 0:
		kind = abi.KindKernel
	case kind == abi.KindGraphNode:
		return c.node(false)
	}
	h := latest(c, c.handles[kind])
	switch kind {
	case abi.KindGraph:
		switch {
		case c.wanted.exec != 0 && c.wanted.child != 0:
			return c.wanted.child // what the node was made of
		case c.wanted.graph == 0:
			c.wanted.graph = h
		default:
			c.wanted.child = h
		}
	case abi.KindGraphExec:
		c.wanted.exec = h
	default:
	}
	return h
}

func (c *caller) address() uint64 {
	list := c.addresses
	if c.IntN(5) == 0 {
		list = c.pinned
	}
	return latest(c, list) + []uint64{0, 0, 0, 256, 512, 1}[c.IntN(6)]
}

// answersInMemory are calls whose Address is in the program's memory.
var answersInMemory = map[abi.Call]bool{
	abi.CallStreamCaptureInfo: true, abi.CallListFunctions: true, abi.CallFunctionInfo: true, abi.CallGraphNodes: true,
	abi.CallGraphKernelNodeGet: true, abi.CallGraphDot: true,
}

const (
	answersAt = 1 << 10 // where they go, from programBase
	dataAt    = 64 << 10
)

// payload makes up the arguments of a call, field by field.
func (c *caller) payload(number abi.Call) []byte {
	message := messages[number]
	if message == nil {
		return nil
	}
	c.wanted.node, c.wanted.graph, c.wanted.exec, c.wanted.child, c.wanted.open = typeOf(number), 0, 0, 0, false
	v := reflect.New(reflect.TypeOf(message).Elem()).Elem()
	for i := range v.NumField() {
		name := strings.ToLower(v.Type().Field(i).Name)
		switch field := v.Field(i); field.Interface().(type) {
		case abi.Handle:
			field.SetUint(c.handle(kindsOf(name)))
		case wire.Words:
			var nodes []abi.Handle
			for range c.IntN(3) {
				nodes = append(nodes, abi.Handle(c.node(true)))
			}
			field.Set(reflect.ValueOf(wire.MakeWords(nodes...)))
		case uint64:
			field.SetUint(c.wide(number, name))
		case uint32:
			field.SetUint(uint64(c.narrow(number, name)))
		case int32:
			field.SetInt(int64(c.signed(name)))
		case string:
			field.SetString([]string{"double", "triple", "calls", "both", "table", "nothing"}[c.IntN(6)])
		case []byte:
			field.SetBytes(c.bytes(name))
		}
	}
	if in, is := v.Addr().Interface().(*wire.VmmSetAccess); is {
		c.wanted.open = in.Device == 0 && in.Flags == 3
	}
	return v.Addr().Interface().(wire.Reply).Append(nil)
}

func (c *caller) wide(number abi.Call, name string) uint64 {
	switch name {
	case "ptr":
		c.wanted.at = latest(c, c.reserved) + []uint64{0, 0, 0, gpu.ChunkBytes}[c.IntN(4)]
		return c.wanted.at
	case "addr":
		return latest(c, c.reserved)
	case "alignment":
		return []uint64{0, 0, 4 * gpu.ChunkBytes, 7}[c.IntN(4)]
	case "size":
		if number == abi.CallMemAddressReserve || number == abi.CallMemAddressFree {
			return []uint64{4, 4, 2, 0}[c.IntN(4)] * gpu.ChunkBytes
		}
		return []uint64{1, 1, 2, 3}[c.IntN(4)] * gpu.ChunkBytes
	case "function":
		return c.handle(abi.KindFunction)
	case "owner":
		return c.handle([]abi.Kind{abi.KindModule, abi.KindLibrary}[c.IntN(2)])
	case "address", "second":
		if number == abi.CallHostRegister || number == abi.CallHostUnregister {
			c.wanted.at = programBase + dataAt + uint64(c.IntN(3))*16384
			c.wanted.open = number == abi.CallHostRegister
			return c.wanted.at
		}
		if answersInMemory[number] {
			return programBase + answersAt
		}
		return c.address()
	case "into":
		return programBase + answersAt
	case "dptr":
		return latest(c, c.addresses)
	case "dst", "src":
		if (number == abi.CallMemcpyWait || strings.Contains(number.String(), "MemcpyNode")) && c.IntN(3) == 0 {
			return programBase + dataAt + uint64(c.IntN(4))*1024
		}
		return c.address()
	case "p":
		return latest(c, c.pinned)
	case "bytes":
		return []uint64{4096, 16384, 5000, 20000}[c.IntN(4)]
	case "bytesize":
		return []uint64{8192, 5000, 70000, 1 << 20, 1<<20 + 1, 3 << 20, 0}[c.IntN(7)]
	case "width", "columns", "widthinbytes":
		return []uint64{4, 64, 100, 1000, 0}[c.IntN(5)]
	case "height", "depth", "rows":
		return []uint64{1, 1, 1, 2, 3, 0}[c.IntN(6)]
	case "capacity":
		return []uint64{0, 2, 40, 1000}[c.IntN(4)]
	case "count":
		c.records++
		return c.records
	case "flags":
		return []uint64{0, 0, 1, 2, 8, 9}[c.IntN(6)]
	case "maxbytes":
		return uint64(c.IntN(2)) << 20
	}
	if strings.Contains(name, "pitch") || strings.Contains(name, "slice") {
		return []uint64{1024, 1024, 2048, 64}[c.IntN(4)]
	}
	return []uint64{0, 1, 2, 100, 4096, 1 << 20}[c.IntN(6)]
}

func (c *caller) narrow(number abi.Call, name string) uint32 {
	switch {
	case strings.HasPrefix(name, "grid"), strings.HasPrefix(name, "block"), strings.HasPrefix(name, "cluster"):
		return []uint32{1, 1, 1, 2, 32, 0}[c.IntN(6)]
	case name == "sharedbytes":
		return []uint32{0, 0, 0, 100, 50000}[c.IntN(5)]
	case name == "patternbytes", name == "elementsizebytes":
		return []uint32{1, 2, 4, 4, 4, 8}[c.IntN(6)]
	case name == "dstkind", name == "srckind":
		return uint32(c.IntN(3) / 2)
	case name == "what":
		return uint32(c.IntN(6))
	case name == "attribute":
		return uint32(1 + c.IntN(9))
	case name == "kind":
		return []uint32{wire.CallbackHost, wire.CallbackHost, wire.CallbackStream}[c.IntN(3)]
	case name == "flags" && number == abi.CallVmmSetAccess:
		return []uint32{3, 3, 3, 1, 0, 2}[c.IntN(6)]
	case name == "handletypes", name == "capable":
		return uint32(c.IntN(4)) / 2
	case name == "flags" && (number == abi.CallUserObjectCreate || number == abi.CallMemAllocManaged):
		return 1
	case name == "flags":
		return []uint32{0, 0, 0, 1, 2}[c.IntN(5)]
	}
	return uint32(1 + c.IntN(3))
}

func (c *caller) signed(name string) int32 {
	switch name {
	case "dev", "device":
		return []int32{0, 0, 0, 1, 1, 2}[c.IntN(6)]
	case "limit":
		return int32(c.IntN(8))
	case "id":
		return int32(c.IntN(18))
	case "attrib":
		return int32(7 + c.IntN(9))
	case "value":
		return []int32{0, 1, 50, 60000, -1}[c.IntN(5)]
	case "mode":
		return int32(c.IntN(4))
	case "priority":
		return int32(c.IntN(5) - 3)
	}
	return int32(c.IntN(200))
}

// attributes are of launches, made of any numbers; clusters are of one block mostly.
func (c *caller) attributes(n int) (data []byte) {
	for range n {
		one := make([]byte, abi.LaunchAttributeBytes)
		one[0] = []byte{2, 4, 5, 6, 8, 9, 10, 14, 16, 7}[c.IntN(10)]
		for at := abi.LaunchAttributeBytes - abi.LaunchValueBytes; at < abi.LaunchAttributeBytes; at += 4 {
			one[at] = []byte{1, 1, 1, 1, 0, 2}[c.IntN(6)]
		}
		data = append(data, one...)
	}
	return data[:len(data)-c.IntN(20)/19]
}

// tensor is a description that is a good one, unless a word of it is not.
func (c *caller) tensor() []byte {
	words := make([]uint64, abi.TensorMapBytes/8)
	words[0], words[1], words[2], words[3] = uint64(c.IntN(3)), uint64(c.IntN(14)), uint64(1+c.IntN(5)), c.address()&^15
	for i := range 5 {
		words[4+i], words[13+i], words[18+i] = uint64(1+c.IntN(100)), uint64(1+c.IntN(16)), uint64(1+c.IntN(8))
	}
	for i := range 4 {
		words[9+i] = 16 * uint64(1+c.IntN(100))
	}
	if c.IntN(4) == 0 {
		words[c.IntN(len(words))] = uint64(c.IntN(1000)) << c.IntN(50)
	}
	data, _ := binary.Append(nil, binary.LittleEndian, words)
	return data
}

// bytes are the parameters of the kernels that are loaded, an address and a count, unless the name
// says what else.
func (c *caller) bytes(name string) []byte {
	switch name {
	case "attributes":
		return c.attributes(1 + c.IntN(3))
	case "attribute":
		return c.attributes(1)
	case "description":
		return c.tensor()
	case "map":
		encoded, _ := model.EncodeTensor(
			&abi.TensorMap{Rank: 1, Sizes: [5]uint64{1}, Box: [5]uint64{1}, Steps: [5]uint64{1}},
		)
		return encoded[:]
	}
	count := []uint32{4, 30, 1000}[c.IntN(3)]
	b := binary.LittleEndian.AppendUint64(nil, c.address()&^3)
	return binary.LittleEndian.AppendUint32(b, count)
}
