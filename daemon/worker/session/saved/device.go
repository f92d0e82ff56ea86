package saved

import (
	"github.com/phos-gpu/phos/daemon/gpu"
	"github.com/phos-gpu/phos/hijack/abi"
)

// Device is a session's state of a GPU.
type Device struct {
	Window gpu.Range
	// Retained and Flags belong to the primary context, even if it does not exist.
	Retained, Flags uint32
	// DefaultPool and CurrentPool are the GPU's memory pools.
	DefaultPool, CurrentPool abi.Handle
	// Spare is the address of a chunk that has memory but no allocation; 0 for none.
	Spare uint64
	// Continuation is the backend's state. It is used only if there are contexts on the device.
	Continuation gpu.Continuation
	Fault        Fault
	// Loads are the loads and unloads of code, in order, if the driver places variables.
	Loads []Load
}

// Load is a load or an unload of code.
type Load struct {
	// Module is the loaded module if it still exists. Otherwise Image and HeapBytes are set, as in
	// Module.
	Module    abi.Handle
	Image     int
	HeapBytes uint64
	// Unloads is the number, from 1, of the load that is undone; 0 for a load.
	Unloads int
}

// code codes a load or an unload.
func (l *Load) code(c *coder) {
	number(c, &l.Module)
	number(c, &l.Image)
	number(c, &l.HeapBytes)
	number(c, &l.Unloads)
}

// Fault is the fault that poisoned a device's contexts. Its code is abi.Success while they are
// healthy.
type Fault struct {
	Code abi.Result
	Text string
}

// code codes a device; Loads since version 6.
func (d *Device) code(c *coder) {
	codeRange(c, &d.Window)
	number(c, &d.Retained)
	number(c, &d.Flags)
	number(c, &d.DefaultPool)
	number(c, &d.CurrentPool)
	number(c, &d.Spare)
	number(c, &d.Continuation.Clock)
	number(c, &d.Continuation.Launches)
	number(c, &d.Fault.Code)
	c.text(&d.Fault.Text)
	if c.version >= 6 {
		list(c, &d.Loads, func(c *coder, l *Load) { l.code(c) })
	}
}

// Context is a driver context.
type Context struct {
	Device int32
	Flags  uint32
	// Limits are by their CUlimit numbers.
	Limits []uint64
	// HeapBytes is the size of the kernels' heap if it was set, else 0.
	HeapBytes uint64
	// Legacy is set if the legacy default stream exists. PerThread are the reply slots of threads with
	// a per-thread default stream.
	Legacy    bool
	PerThread []uint32
	// Peers are contexts of other GPUs whose memory kernels may access.
	Peers []abi.Handle
}

// code codes a context; Peers since version 3.
func (x *Context) code(c *coder) {
	number(c, &x.Device)
	number(c, &x.Flags)
	numbers(c, &x.Limits)
	number(c, &x.HeapBytes)
	c.boolean(&x.Legacy)
	numbers(c, &x.PerThread)
	if c.version >= 3 {
		numbers(c, &x.Peers)
	}
}
