package gpu

import "github.com/phos-gpu/phos/hijack/abi"

// ChunkBytes is the granule of device memory: what Memory.Map backs, what Tracker marks, what a
// checkpoint copies.
const ChunkBytes = 2 << 20

// Backend is one kind of GPU, opened once per worker process.
type Backend interface {
	// Devices lists the devices in ordinal order. The answer never changes while the backend is open.
	Devices() []DeviceInfo
	// NewContext makes an address space with its own modules and streams on a device.
	NewContext(ordinal int, options ContextOptions) (Context, error)
	Close() error
}

// DeviceInfo is everything about a device that a program may ask without touching it.
type DeviceInfo struct {
	Name        string
	UUID        [16]byte
	MemoryBytes uint64
	// Attributes holds the driver's device attributes by number; a missing one reads as 0.
	Attributes map[abi.DeviceAttribute]int32
	// Window is where the backend can place this device's memory; the zero value means DefaultWindow.
	Window Range
	// DriverVersion is what cuDriverGetVersion says, the same for all devices; 0 means DefaultDriver.
	DriverVersion int32
	// PTXOnly devices execute no machine code.
	PTXOnly bool
}

// Versions of the driver, as 1000 * major + 10 * minor. A newer one than NewestDriver says that it
// is that: a runtime that is told more looks for calls that libphos.so does not have.
const (
	DefaultDriver = 12040
	NewestDriver  = 13000
)

// Driver is the version of the driver behind devices.
func Driver(devices []DeviceInfo) int32 {
	if len(devices) == 0 || devices[0].DriverVersion == 0 {
		return DefaultDriver
	}
	return min(devices[0].DriverVersion, NewestDriver)
}

// ContextOptions says where a context's memory lies and where its side effects go.
type ContextOptions struct {
	// Window is where the session will place device memory: whole chunks, the same for all contexts of
	// a device, apart from the windows of other devices. The zero value means DefaultWindow.
	Window Range
	// Output receives what kernels print, whole lines or parts of them, in order, before the stream
	// reports the launch done.
	Output func(text []byte)
	// Late hears of work that was accepted and then refused, which is no fault: nothing of it was
	// done, and all else goes on. Without it such an error poisons the context, as the program must
	// hear of it somehow; and so it does where the work was there to put other work in order (Record,
	// Await, MemoryOps).
	Late func(error)
	// Resumed is what an earlier context knew that this one takes the place of; zero for a new one.
	Resumed Continuation
}

// Context is an address space on one device. A sticky fault poisons it: every later call returns
// that fault. What else it harms, FaultContainer says.
type Context interface {
	Memory() Memory
	NewStream(options StreamOptions) (Stream, error)
	NewEvent(options EventOptions) (Event, error)
	// LoadModule loads PTX text or an already unpacked image; see Image.
	LoadModule(image Image, options LoadOptions) (Module, error)
	// Instantiate makes a graph ready for launching.
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

// End is the first address after the range.
func (r Range) End() uint64 { return r.Address + r.Bytes }

// Contains reports whether other lies wholly inside r.
func (r Range) Contains(other Range) bool {
	return other.Address >= r.Address && other.Bytes <= r.Bytes && other.Address-r.Address <= r.Bytes-other.Bytes
}

// Memory backs addresses. Its calls take effect at once, unordered with streams: the session orders
// them.
type Memory interface {
	// Map backs a range, whole chunks at a chunk boundary, with zeroed memory. It returns
	// abi.OutOfMemory where there is none.
	Map(r Range) error
	// Unmap gives the memory back; touching the range is a fault afterwards, but for kernels that
	// touch what a Keeper keeps.
	Unmap(r Range) error
	// MapHost makes host memory (the pinned arena) visible to kernels at address, which is also its
	// address in the program. A backend may insist that it lies there in this process too, and is a
	// mapping of a file.
	MapHost(address uint64, memory []byte) error
	// UnmapHost takes one MapHost back. That of a Keeper may wait for all work.
	UnmapHost(address uint64) error
	// ReadAt copies device memory out; offset is a device address. The interfaces are those of package
	// io.
	ReadAt(p []byte, address int64) (int, error)
	// WriteAt copies into device memory and marks the chunks written.
	WriteAt(p []byte, address int64) (int, error)
	// Usage reports free and total bytes of the device, all its users counted.
	Usage() (free, total uint64)
}
