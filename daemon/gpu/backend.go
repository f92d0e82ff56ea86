package gpu

import "github.com/phos-gpu/phos/hijack/abi"

// ChunkBytes is the granularity of device memory: the unit of Memory.Map, of dirty tracking and of
// copies for a checkpoint.
const ChunkBytes = 2 << 20

// Backend is one kind of GPU, opened once per worker process.
type Backend interface {
	// Devices lists the devices in ordinal order. The answer never changes while the backend is open.
	Devices() []DeviceInfo
	// NewContext creates an address space on a device, with its own modules and streams.
	NewContext(ordinal int, options ContextOptions) (Context, error)
	Close() error
}

// DeviceInfo is what a program may query about a device without using it.
type DeviceInfo struct {
	Name        string
	UUID        [16]byte
	MemoryBytes uint64
	// Attributes holds the driver's device attributes by number; a missing attribute reads as 0.
	Attributes map[abi.DeviceAttribute]int32
	// Window is where the backend can place this device's memory; the zero value means
	// DefaultWindow.
	Window Range
	// DriverVersion is the result of cuDriverGetVersion, the same for all devices; 0 means
	// DefaultDriver.
	DriverVersion int32
	// PTXOnly is set for devices that cannot execute machine code.
	PTXOnly bool
}

// Driver versions, as 1000 * major + 10 * minor. A newer driver is reported as NewestDriver,
// because a CUDA runtime that sees a later version looks for calls that libphos.so does not have.
const (
	DefaultDriver = 12040
	NewestDriver  = 13000
)

// Driver returns the driver version to report for devices.
func Driver(devices []DeviceInfo) int32 {
	if len(devices) == 0 || devices[0].DriverVersion == 0 {
		return DefaultDriver
	}
	return min(devices[0].DriverVersion, NewestDriver)
}

// ContextOptions says where a context's memory lies and where its side effects go.
type ContextOptions struct {
	// Window is where the session will place device memory. It is made of whole chunks, is the same
	// for all contexts of a device, and does not overlap the windows of other devices. The zero
	// value means DefaultWindow.
	Window Range
	// Output receives device printf in order, in whole or partial lines, before the stream reports
	// the launch done.
	Output func(text []byte)
	// OnRefused is called for work that was accepted by Submit and refused by the driver afterwards.
	// This is not a fault: the work had no effect and everything else goes on. If OnRefused is nil, or
	// if the work orders other work (Record, Await, MemoryOps), such an error poisons the context,
	// because the program must see it.
	OnRefused func(error)
	// Resumed is the state of the context that this one replaces after a restore; zero for a new
	// context.
	Resumed Continuation
}

// Context is an address space on one device. A sticky fault poisons it: every later call returns
// that fault. See FaultContainer for what else a fault may damage.
type Context interface {
	Memory() Memory
	NewStream(options StreamOptions) (Stream, error)
	NewEvent(options EventOptions) (Event, error)
	// LoadModule loads PTX text or an already unpacked image; see Image.
	LoadModule(image Image, options LoadOptions) (Module, error)
	// Instantiate prepares a graph for launching.
	Instantiate(graph *Graph) (Executable, error)
	// Synchronize waits for all work of all streams and returns the first fault.
	Synchronize() error
	// Fault returns the sticky error, nil while the context is healthy.
	Fault() error
	Close() error
}

// Range is a span of device addresses.
type Range struct {
	Address uint64
	Bytes   uint64
}

// End returns the first address after the range.
func (r Range) End() uint64 { return r.Address + r.Bytes }

// Contains reports whether other lies wholly inside r.
func (r Range) Contains(other Range) bool {
	return other.Address >= r.Address && other.Bytes <= r.Bytes && other.Address-r.Address <= r.Bytes-other.Bytes
}

// Memory backs addresses. Its calls take effect at once and are not ordered with streams: the
// session orders them.
type Memory interface {
	// Map backs a range of whole chunks with zeroed memory. It returns abi.OutOfMemory if the
	// device has too little.
	Map(r Range) error
	// Unmap frees the memory of a range. Accessing the range afterwards is a fault, except for
	// kernels that access memory that a ReclaimableMemory has not reclaimed yet.
	Unmap(r Range) error
	// MapHost makes host memory (the pinned arena) visible to kernels at address, which is also its
	// address in the program. A backend may require that the memory is mapped at this address in
	// the worker too, and that it is a file mapping.
	MapHost(address uint64, memory []byte) error
	// UnmapHost reverses one MapHost. In a ReclaimableMemory it may wait for all work.
	UnmapHost(address uint64) error
	// ReadAt copies from device memory; address takes the place of the offset of
	// package io, which ReadAt and WriteAt follow.
	ReadAt(p []byte, address int64) (int, error)
	// WriteAt copies to device memory and makes the chunks dirty.
	WriteAt(p []byte, address int64) (int, error)
	// Usage returns the free and total bytes of the device, counting all its users.
	Usage() (free, total uint64)
}
