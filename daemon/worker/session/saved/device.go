package saved

import (
	"github.com/phos-gpu/phos/daemon/gpu"
	"github.com/phos-gpu/phos/hijack/abi"
)

// Device is what a session keeps of a GPU.
type Device struct {
	Window gpu.Range
	// Retained and Flags are the primary context's, whether it exists or not.
	Retained, Flags uint32
	// DefaultPool and CurrentPool are the GPU's memory pools.
	DefaultPool, CurrentPool abi.Handle
	// Spare is the address of a chunk that has memory though nothing lies in it; 0 for none.
	Spare uint64
	// Continuation is the backend's; of meaning while there are contexts on the device.
	Continuation gpu.Continuation
	Fault        Fault
	// Loads are how code came and went, where the driver places variables.
	Loads []Load
}

// Load is code that was loaded, or unloaded.
type Load struct {
	// Module is what was loaded, if it is still there; else there are Image and HeapBytes, as a Module
	// has them.
	Module    abi.Handle
	Image     int
	HeapBytes uint64
	// Unloads is the number of the load, the first of all being 1, that is taken back; 0 for a load.
	Unloads int
}

func (l *Load) code(c *coder) {
	number(c, &l.Module)
	number(c, &l.Image)
	number(c, &l.HeapBytes)
	number(c, &l.Unloads)
}

// Fault is what poisoned a device's contexts; abi.Success while they are healthy.
type Fault struct {
	Code abi.Result
	Text string
}

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
	// HeapBytes is that of the heap of kernels once it was set, else 0.
	HeapBytes uint64
	// Legacy says that the default stream exists; PerThread are the reply slots of threads that have a
	// default stream of their own.
	Legacy    bool
	PerThread []uint32
	// Peers are contexts of other GPUs whose memory kernels may touch.
	Peers []abi.Handle
}

func (x *Context) code(c *coder) {
	number(c, &x.Device)
	number(c, &x.Flags)
	numbers(c, &x.Limits)
	number(c, &x.HeapBytes)
	c.flag(&x.Legacy)
	numbers(c, &x.PerThread)
	if c.version >= 3 {
		numbers(c, &x.Peers)
	}
}
