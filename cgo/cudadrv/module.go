//go:build cgo

package cudadrv

// #include "driver.h"
import "C"

import (
	"bytes"
	"unsafe"

	"github.com/phos-gpu/phos/hijack/abi"
)

// logBytes is the size of the buffer for the compiler's log.
const logBytes = 8192

// errorText returns the text in a log buffer.
func errorText(log []byte) string {
	text, _, _ := bytes.Cut(log, []byte{0})
	return string(text)
}

// ModuleLoad loads an image: machine code, a fat binary, or PTX text that ends with NUL. It returns
// the compiler's log.
func (d *Driver) ModuleLoad(ctx Context, image []byte) (m Module, log string, err error) {
	var text [logBytes]byte
	err = result("cuModuleLoadDataEx", C.phos_load(C.uint64_t(ctx), unsafe.Pointer(unsafe.SliceData(image)),
		(*C.char)(unsafe.Pointer(&text)), logBytes, (*C.uint64_t)(&m)))
	return m, errorText(text[:]), err
}

// ModuleLink loads several PTX texts as one program.
func (d *Driver) ModuleLink(ctx Context, texts []string) (m Module, log string, err error) {
	// The texts are copied to C memory: Go memory passed to C must not contain Go pointers.
	list := make([]*C.char, len(texts))
	sizes := make([]C.size_t, len(texts))
	for i, text := range texts {
		list[i], sizes[i] = C.CString(text), C.size_t(len(text)+1)
		defer C.free(unsafe.Pointer(list[i]))
	}
	var text [logBytes]byte
	err = result(
		"cuLink and cuModuleLoadDataEx",
		C.phos_link(C.uint64_t(ctx), unsafe.SliceData(list), unsafe.SliceData(sizes), C.uint32_t(len(texts)),
			(*C.char)(unsafe.Pointer(&text)), logBytes, (*C.uint64_t)(&m)),
	)
	return m, errorText(text[:]), err
}

// ModuleFunctions lists the kernels of a module; abi.NotSupported with older drivers.
func (d *Driver) ModuleFunctions(ctx Context, m Module) ([]Function, error) {
	count, err := d.ModuleGetFunctionCount(ctx, m)
	if err != nil || count == 0 {
		return nil, err
	}
	functions := make([]Function, count)
	err = result(
		"cuModuleEnumerateFunctions",
		C.phos_list_functions(
			C.uint64_t(ctx),
			C.uint64_t(m),
			(*C.uint64_t)(unsafe.SliceData(functions)),
			C.uint32_t(count),
		),
	)
	return functions, err
}

// FunctionName returns a kernel's name; abi.NotSupported with older drivers.
func (d *Driver) FunctionName(ctx Context, f Function) (string, error) {
	text, err := d.FuncGetName(ctx, f)
	if err != nil {
		return "", err
	}
	return C.GoString((*C.char)(text)), nil
}

// c converts the shape to C.
func (s *Shape) c() C.struct_phos_shape {
	three := func(n [3]uint32) [3]C.uint32_t {
		return [3]C.uint32_t{C.uint32_t(n[0]), C.uint32_t(n[1]), C.uint32_t(n[2])}
	}
	return C.struct_phos_shape{grid: three(s.Grid), block: three(s.Block), shared_bytes: C.uint32_t(s.SharedBytes)}
}

// attributes returns the attributes in the driver's layout.
func (s *Shape) attributes() (first unsafe.Pointer, count C.uint32_t) {
	return unsafe.Pointer(unsafe.SliceData(s.Attributes)), C.uint32_t(len(s.Attributes))
}

// Launch launches a kernel with a packed parameter block.
func (d *Driver) Launch(ctx Context, f Function, shape Shape, params []byte, stream Stream) error {
	c := shape.c()
	if first, count := shape.attributes(); count > 0 {
		return result("cuLaunchKernelEx", C.phos_launch_with(C.uint64_t(ctx), C.uint64_t(f), &c, C.uint64_t(stream),
			unsafe.Pointer(unsafe.SliceData(params)), C.size_t(len(params)), first, count))
	}
	return result("cuLaunchKernel", C.phos_launch(C.uint64_t(ctx), C.uint64_t(f), &c, C.uint64_t(stream),
		unsafe.Pointer(unsafe.SliceData(params)), C.size_t(len(params))))
}

// ActiveClusters returns how many clusters of a launch fit on a device.
func (d *Driver) ActiveClusters(ctx Context, f Function, shape Shape) (n int32, err error) {
	return d.clusters(ctx, f, shape, C.PHOS_ACTIVE_CLUSTERS)
}

// LargestCluster returns the maximum number of blocks in a cluster of a launch.
func (d *Driver) LargestCluster(ctx Context, f Function, shape Shape) (n int32, err error) {
	return d.clusters(ctx, f, shape, C.PHOS_LARGEST_CLUSTER)
}

// clusters queries one property of a launch with clusters.
func (d *Driver) clusters(ctx Context, f Function, shape Shape, what int) (n int32, err error) {
	c := shape.c()
	first, count := shape.attributes()
	err = result(
		"cuOccupancyMaxActiveClusters or cuOccupancyMaxPotentialClusterSize",
		C.phos_clusters(C.uint64_t(ctx), C.int(what), C.uint64_t(f), &c, first, count, (*C.int32_t)(&n)),
	)
	return n, err
}

// TensorMap encodes a tensor map.
func (d *Driver) TensorMap(ctx Context, tensor *abi.TensorMap) (encoded [abi.EncodedTensorMapBytes]byte, err error) {
	err = result(
		"cuTensorMapEncode",
		C.phos_tensor_map(C.uint64_t(ctx), (*C.struct_phos_tensor)(unsafe.Pointer(tensor)), unsafe.Pointer(&encoded)),
	)
	return encoded, err
}

// TensorMapReplace changes the address in an encoded tensor map.
func (d *Driver) TensorMapReplace(ctx Context, encoded *[abi.EncodedTensorMapBytes]byte, address uint64) error {
	return result(
		"cuTensorMapReplaceAddress",
		C.phos_tensor_replace(C.uint64_t(ctx), unsafe.Pointer(encoded), C.uint64_t(address)),
	)
}

// Placing is the destination of a node. It is added to Graph after other nodes; if Exec is not
// zero, Node of Exec is updated instead.
type Placing struct {
	Graph Graph
	After []GraphNode
	Exec  GraphExec
	Node  GraphNode
}

// after returns the dependencies as a C array.
func (p *Placing) after() *C.uint64_t { return (*C.uint64_t)(unsafe.SliceData(p.After)) }

// KernelNode adds or updates a launch in a graph. An update in an executable graph does not change
// attributes.
func (d *Driver) KernelNode(ctx Context, p Placing, f Function, shape Shape, params []byte) (GraphNode, error) {
	c := shape.c()
	node := p.Node
	err := result(
		"a kernel node of a graph",
		C.phos_kernel_node(C.uint64_t(ctx), C.uint64_t(p.Graph), C.uint64_t(p.Exec), (*C.uint64_t)(&node), p.after(),
			C.size_t(len(p.After)), C.uint64_t(f), &c, unsafe.Pointer(unsafe.SliceData(params)), C.size_t(len(params))),
	)
	if first, count := shape.attributes(); err == nil && count > 0 && p.Exec == 0 {
		err = result(
			"cuGraphKernelNodeSetAttribute",
			C.phos_node_attributes(C.uint64_t(ctx), C.uint64_t(node), first, count),
		)
	}
	return node, err
}

// CopyNode adds or updates a copy in a graph.
func (d *Driver) CopyNode(ctx Context, p Placing, box Box) (GraphNode, error) {
	c := box.c()
	node := p.Node
	err := result(
		"a copy node of a graph",
		C.phos_copy_node(C.uint64_t(ctx), C.uint64_t(p.Graph), C.uint64_t(p.Exec), (*C.uint64_t)(&node), p.after(),
			C.size_t(len(p.After)), &c),
	)
	return node, err
}

// FillNode adds or updates a fill in a graph.
func (d *Driver) FillNode(ctx Context, p Placing, fill MemsetNode) (GraphNode, error) {
	c := C.struct_phos_fill{
		address: C.uint64_t(fill.Address), pitch: C.uint64_t(fill.Pitch), width: C.uint64_t(fill.Width),
		height: C.uint64_t(fill.Height), value: C.uint32_t(fill.Value), element_bytes: C.uint32_t(fill.ElementBytes),
	}
	node := p.Node
	err := result(
		"a fill node of a graph",
		C.phos_fill_node(C.uint64_t(ctx), C.uint64_t(p.Graph), C.uint64_t(p.Exec), (*C.uint64_t)(&node), p.after(),
			C.size_t(len(p.After)), &c),
	)
	return node, err
}

// EmptyNode adds a node that joins its dependencies.
func (d *Driver) EmptyNode(ctx Context, p Placing) (GraphNode, error) {
	return d.GraphAddEmptyNode(ctx, p.Graph, unsafe.Pointer(unsafe.SliceData(p.After)), uint64(len(p.After)))
}
