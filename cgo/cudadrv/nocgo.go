//go:build !cgo

package cudadrv

import (
	"os"

	"github.com/phos-gpu/phos/hijack/abi"
)

// Built reports whether this program was built with cgo and can open a driver.
const Built = false

// DefaultLibrary is opened if no path is given.
const DefaultLibrary = "libcuda.so.1"

// Driver cannot be created without cgo.
type Driver struct {
	Path    string
	Version int32
}

// Placing is the destination of a node in a graph.
type Placing struct {
	Graph Graph
	After []GraphNode
	Exec  GraphExec
	Node  GraphNode
}

// Open fails.
func Open(string) (*Driver, error) { return nil, ErrNoCgo }

// The methods below mirror the build with cgo. They are never called, because Open fails.

// CtxCreate creates a context.
func (d *Driver) CtxCreate(uint32, int32) (Context, error) { return 0, ErrNoCgo }

// End destroys a context.
func (d *Driver) End(Context) error { return ErrNoCgo }

// DeviceName returns a device's name.
func (d *Driver) DeviceName(int32) (string, error) { return "", ErrNoCgo }

// DeviceUUID returns a device's UUID.
func (d *Driver) DeviceUUID(int32) ([16]byte, error) { return [16]byte{}, ErrNoCgo }

// Reserve reserves a range of addresses.
func (d *Driver) Reserve(_, _ uint64) (uint64, error) { return 0, ErrNoCgo }

// Unreserve frees a range of addresses.
func (d *Driver) Unreserve(_, _ uint64) error { return ErrNoCgo }

// Granularity returns the unit of allocation sizes.
func (d *Driver) Granularity(int32, HandleTypes) (uint64, error) { return 0, ErrNoCgo }

// Create allocates memory on a device.
func (d *Driver) Create(uint64, int32, HandleTypes) (Allocation, error) { return 0, ErrNoCgo }

// Export returns a file descriptor for memory.
func (d *Driver) Export(Allocation) (*os.File, error) { return nil, ErrNoCgo }

// Import imports memory that another process has exported.
func (d *Driver) Import(*os.File) (Allocation, error) { return 0, ErrNoCgo }

// Release frees memory.
func (d *Driver) Release(Allocation) error { return ErrNoCgo }

// Map maps memory at reserved addresses.
func (d *Driver) Map(_, _ uint64, _ Allocation) error { return ErrNoCgo }

// Unmap removes mappings.
func (d *Driver) Unmap(_, _ uint64) error { return ErrNoCgo }

// Allow grants devices access to a mapping.
func (d *Driver) Allow(_, _ uint64, _ []int32) error { return ErrNoCgo }

// Grant sets a device's access right to a mapping.
func (d *Driver) Grant(_, _ uint64, _ int32, _ Access) error { return ErrNoCgo }

// HostRegister pins host memory and maps it for devices.
func (d *Driver) HostRegister(Context, []byte) error { return ErrNoCgo }

// HostPin pins host memory for copies.
func (d *Driver) HostPin(Context, []byte) error { return ErrNoCgo }

// HostUnregister reverses HostRegister and HostPin.
func (d *Driver) HostUnregister(Context, []byte) error { return ErrNoCgo }

// HostAddress returns the device address of registered memory.
func (d *Driver) HostAddress(Context, []byte) (uint64, error) { return 0, ErrNoCgo }

// HostAlloc allocates pinned memory.
func (d *Driver) HostAlloc(Context, int) ([]byte, error) { return nil, ErrNoCgo }

// CopyIn copies to the device.
func (d *Driver) CopyIn(Context, uint64, []byte, Stream) error { return ErrNoCgo }

// CopyOut copies from the device.
func (d *Driver) CopyOut(Context, []byte, uint64, Stream) error { return ErrNoCgo }

// CopyBox copies rows and slices.
func (d *Driver) CopyBox(Context, Box, Stream) error { return ErrNoCgo }

// CopyPeers copies rows and slices between devices.
func (d *Driver) CopyPeers(Context, Box, Context, Context, Stream) error { return ErrNoCgo }

// ModuleLoad loads an image.
func (d *Driver) ModuleLoad(Context, []byte) (Module, string, error) { return 0, "", ErrNoCgo }

// ModuleLink loads several PTX texts as one program.
func (d *Driver) ModuleLink(Context, []string) (Module, string, error) { return 0, "", ErrNoCgo }

// ModuleFunctions lists the kernels of a module.
func (d *Driver) ModuleFunctions(Context, Module) ([]Function, error) { return nil, ErrNoCgo }

// FunctionName returns a kernel's name.
func (d *Driver) FunctionName(Context, Function) (string, error) { return "", ErrNoCgo }

// Launch launches a kernel.
func (d *Driver) Launch(Context, Function, Shape, []byte, Stream) error { return ErrNoCgo }

// ActiveClusters returns how many clusters of a launch fit on a device.
func (d *Driver) ActiveClusters(Context, Function, Shape) (int32, error) { return 0, ErrNoCgo }

// LargestCluster returns the maximum number of blocks in a cluster of a launch.
func (d *Driver) LargestCluster(Context, Function, Shape) (int32, error) { return 0, ErrNoCgo }

// TensorMap encodes a tensor map.
func (d *Driver) TensorMap(Context, *abi.TensorMap) (encoded [abi.EncodedTensorMapBytes]byte, err error) {
	return encoded, ErrNoCgo
}

// TensorMapReplace changes the address in an encoded tensor map.
func (d *Driver) TensorMapReplace(Context, *[abi.EncodedTensorMapBytes]byte, uint64) error {
	return ErrNoCgo
}

// KernelNode adds or updates a launch in a graph.
func (d *Driver) KernelNode(Context, Placing, Function, Shape, []byte) (GraphNode, error) {
	return 0, ErrNoCgo
}

// CopyNode adds or updates a copy in a graph.
func (d *Driver) CopyNode(Context, Placing, Box) (GraphNode, error) { return 0, ErrNoCgo }

// FillNode adds or updates a fill in a graph.
func (d *Driver) FillNode(Context, Placing, MemsetNode) (GraphNode, error) { return 0, ErrNoCgo }

// EmptyNode adds a node that joins its dependencies.
func (d *Driver) EmptyNode(Context, Placing) (GraphNode, error) { return 0, ErrNoCgo }

// Flush does nothing.
func Flush() {}
