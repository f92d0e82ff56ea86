//go:build !cgo

package cudadrv

import (
	"os"

	"github.com/phos-gpu/phos/hijack/abi"
)

// Built says whether this program can open a driver at all.
const Built = false

// DefaultLibrary is what the loader is asked for where no path is given.
const DefaultLibrary = "libcuda.so.1"

// Driver is a driver that cannot be had.
type Driver struct {
	Path    string
	Version int32
}

// Placing is where a node goes in a graph.
type Placing struct {
	Graph Graph
	After []GraphNode
	Exec  GraphExec
	Node  GraphNode
}

// Open fails.
func Open(string) (*Driver, error) { return nil, ErrNoCgo }

// The methods below are those of the build with cgo; nobody has a Driver to call them.

// CtxCreate makes a context.
func (d *Driver) CtxCreate(uint32, int32) (Context, error) { return 0, ErrNoCgo }

// End destroys a context.
func (d *Driver) End(Context) error { return ErrNoCgo }

// DeviceName is a device's name.
func (d *Driver) DeviceName(int32) (string, error) { return "", ErrNoCgo }

// DeviceUUID is what tells a device from all others.
func (d *Driver) DeviceUUID(int32) ([16]byte, error) { return [16]byte{}, ErrNoCgo }

// Reserve takes a range of addresses.
func (d *Driver) Reserve(_, _ uint64) (uint64, error) { return 0, ErrNoCgo }

// Unreserve gives a range of addresses back.
func (d *Driver) Unreserve(_, _ uint64) error { return ErrNoCgo }

// Granularity is what sizes of allocations are multiples of.
func (d *Driver) Granularity(int32, HandleTypes) (uint64, error) { return 0, ErrNoCgo }

// Create makes memory on a device.
func (d *Driver) Create(uint64, int32, HandleTypes) (Allocation, error) { return 0, ErrNoCgo }

// Export makes a file of memory.
func (d *Driver) Export(Allocation) (*os.File, error) { return nil, ErrNoCgo }

// Import is memory that another process has exported.
func (d *Driver) Import(*os.File) (Allocation, error) { return 0, ErrNoCgo }

// Release gives memory up.
func (d *Driver) Release(Allocation) error { return ErrNoCgo }

// Map puts memory at reserved addresses.
func (d *Driver) Map(_, _ uint64, _ Allocation) error { return ErrNoCgo }

// Unmap takes what was mapped from its addresses.
func (d *Driver) Unmap(_, _ uint64) error { return ErrNoCgo }

// Allow lets devices read and write a mapping.
func (d *Driver) Allow(_, _ uint64, _ []int32) error { return ErrNoCgo }

// Grant sets what a device may do with a mapping.
func (d *Driver) Grant(_, _ uint64, _ int32, _ Access) error { return ErrNoCgo }

// HostRegister pins host memory.
func (d *Driver) HostRegister(Context, []byte) error { return ErrNoCgo }

// HostUnregister takes HostRegister back.
func (d *Driver) HostUnregister(Context, []byte) error { return ErrNoCgo }

// HostAddress is where devices see memory that was registered.
func (d *Driver) HostAddress(Context, []byte) (uint64, error) { return 0, ErrNoCgo }

// HostAlloc is pinned memory.
func (d *Driver) HostAlloc(Context, int) ([]byte, error) { return nil, ErrNoCgo }

// CopyIn copies to the device.
func (d *Driver) CopyIn(Context, uint64, []byte, Stream) error { return ErrNoCgo }

// CopyOut copies from the device.
func (d *Driver) CopyOut(Context, []byte, uint64, Stream) error { return ErrNoCgo }

// CopyBox copies rows and slices.
func (d *Driver) CopyBox(Context, Box, Stream) error { return ErrNoCgo }

// CopyPeers copies rows and slices from one device to another.
func (d *Driver) CopyPeers(Context, Box, Context, Context, Stream) error { return ErrNoCgo }

// ModuleLoad loads an image.
func (d *Driver) ModuleLoad(Context, []byte) (Module, string, error) { return 0, "", ErrNoCgo }

// ModuleLink loads several PTX texts as one program.
func (d *Driver) ModuleLink(Context, []string) (Module, string, error) { return 0, "", ErrNoCgo }

// ModuleFunctions lists the kernels of a module.
func (d *Driver) ModuleFunctions(Context, Module) ([]Function, error) { return nil, ErrNoCgo }

// FunctionName is a kernel's name.
func (d *Driver) FunctionName(Context, Function) (string, error) { return "", ErrNoCgo }

// Launch runs a kernel.
func (d *Driver) Launch(Context, Function, Shape, []byte, Stream) error { return ErrNoCgo }

// ActiveClusters is how many clusters of a launch fit a device.
func (d *Driver) ActiveClusters(Context, Function, Shape) (int32, error) { return 0, ErrNoCgo }

// LargestCluster is how many blocks of a launch a cluster can have.
func (d *Driver) LargestCluster(Context, Function, Shape) (int32, error) { return 0, ErrNoCgo }

// TensorMap encodes what a kernel is told of a tensor.
func (d *Driver) TensorMap(Context, *abi.TensorMap) (encoded [abi.EncodedTensorMapBytes]byte, err error) {
	return encoded, ErrNoCgo
}

// TensorMapReplace gives an encoded tensor another address.
func (d *Driver) TensorMapReplace(Context, *[abi.EncodedTensorMapBytes]byte, uint64) error {
	return ErrNoCgo
}

// KernelNode is a launch in a graph.
func (d *Driver) KernelNode(Context, Placing, Function, Shape, []byte) (GraphNode, error) {
	return 0, ErrNoCgo
}

// CopyNode is a copy in a graph.
func (d *Driver) CopyNode(Context, Placing, Box) (GraphNode, error) { return 0, ErrNoCgo }

// FillNode is a fill in a graph.
func (d *Driver) FillNode(Context, Placing, MemsetNode) (GraphNode, error) { return 0, ErrNoCgo }

// EmptyNode joins what it comes after.
func (d *Driver) EmptyNode(Context, Placing) (GraphNode, error) { return 0, ErrNoCgo }

// Flush does nothing.
func Flush() {}
