package cudadrv

import (
	"errors"

	"github.com/phos-gpu/phos/hijack/abi"
)

// ErrNoCgo means that this program was built without cgo.
var ErrNoCgo = errors.New("this build has no cgo and cannot open a GPU driver")

// ErrLibrary is in the chain of Open's error when there is no driver, or none of the kind that is
// needed.
var ErrLibrary = errors.New("no usable GPU driver")

// Handles of the driver. Zero is none of each.
type (
	// Context is an address space on a device.
	Context uint64
	// Module is loaded code.
	Module uint64
	// Function is a kernel.
	Function uint64
	// Stream is an order of work.
	Stream uint64
	// Event is a point in a stream.
	Event uint64
	// Graph is work with dependencies.
	Graph uint64
	// GraphNode is one piece of it.
	GraphNode uint64
	// GraphExec is a graph made ready.
	GraphExec uint64
	// Allocation is physical memory that has no address yet.
	Allocation uint64
)

// Flags that the backend uses.
const (
	StreamNonBlocking   = 1
	EventBlockingSync   = 1
	EventDisableTiming  = 2
	HostAllocPortable   = 1
	HostRegisterFlags   = 1 | 2 // portable, device map
	LimitPrintfFIFOSize = 1
	LimitMallocHeapSize = 2
)

// Box is a copy of rows and slices between places that both have device addresses.
type Box struct {
	Dst, Src uint64
	// Extent is bytes a row, rows, slices.
	Extent               [3]uint64
	DstPitch, SrcPitch   uint64 // bytes from row to row
	DstHeight, SrcHeight uint64 // rows from slice to slice
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

// Access is what a device may do with a mapping, in the driver's numbers.
type Access int32

// What a device may do.
const (
	AccessNone      Access = 0
	AccessRead      Access = 1
	AccessReadWrite Access = 3
)

// HandleTypes are kinds of handles by which other processes can have memory, in the driver's
// numbers.
type HandleTypes int32

// Kinds of handles.
const (
	HandleNone       HandleTypes = 0
	HandleDescriptor HandleTypes = 1
)
