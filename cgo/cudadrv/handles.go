package cudadrv

import (
	"errors"

	"github.com/phos-gpu/phos/hijack/abi"
)

// ErrNoCgo is returned by programs built without cgo.
var ErrNoCgo = errors.New("this build has no cgo and cannot open a GPU driver")

// ErrLibrary is in the error chain when Open finds no driver, or an unsuitable one.
var ErrLibrary = errors.New("no usable GPU driver")

// ErrAbsent is in the error chain when Open finds no library of that name.
var ErrAbsent = errors.New("it is not installed")

// Handles of the driver; zero is no handle.
type (
	// Context is an address space on a device.
	Context uint64
	// Module is loaded code.
	Module uint64
	// Function is a kernel.
	Function uint64
	// Stream is a queue of work.
	Stream uint64
	// Event is a point in a stream.
	Event uint64
	// Graph is work with dependencies.
	Graph uint64
	// GraphNode is a node of a graph.
	GraphNode uint64
	// GraphExec is an instantiated graph.
	GraphExec uint64
	// Allocation is physical memory that is not mapped.
	Allocation uint64
)

// Flags that the backend uses.
const (
	StreamNonBlocking   = 1
	EventBlockingSync   = 1
	EventDisableTiming  = 2
	HostAllocPortable   = 1
	HostRegisterFlags   = 1 | 2 // portable, device map
	HostPinFlags        = 1     // portable
	LimitPrintfFIFOSize = 1
	LimitMallocHeapSize = 2
)

// Box is a three-dimensional copy between device addresses.
type Box struct {
	Dst, Src uint64
	// Extent is bytes per row, rows, slices.
	Extent               [3]uint64
	DstPitch, SrcPitch   uint64 // bytes per row
	DstHeight, SrcHeight uint64 // rows per slice
}

// Shape is a launch without its parameters.
type Shape struct {
	Grid, Block [3]uint32
	SharedBytes uint32
	Attributes  []abi.LaunchAttribute
}

// MemsetNode is a fill in a graph.
type MemsetNode struct {
	Address, Pitch, Width, Height uint64
	Value, ElementBytes           uint32
}

// Access is a device's access right to a mapping, a CUmemAccess_flags.
type Access int32

// Access rights.
const (
	AccessNone      Access = 0
	AccessRead      Access = 1
	AccessReadWrite Access = 3
)

// HandleTypes are CUmemAllocationHandleType flags: the kinds of handles for sharing memory with
// other processes.
type HandleTypes int32

// Kinds of handles.
const (
	HandleNone       HandleTypes = 0
	HandleDescriptor HandleTypes = 1
)
