package core

import (
	"fmt"
	"sync/atomic"

	"github.com/phos-gpu/phos/daemon/gpu"
	"github.com/phos-gpu/phos/daemon/worker/session/heap"
	"github.com/phos-gpu/phos/hijack/abi"
)

// Settle waits until no checkpoint needs what lies on the device, which may be closed. It needs no
// lock.
func (d *Device) Settle() {
	if opened := d.Opened.Load(); opened != nil {
		if m, is := (*opened).Memory().(gpu.Shadower); is {
			m.Settle()
		}
	}
}

// Device is one GPU. All contexts of the program on it share one gpu.Context, so that an address
// means the same memory in all of them; it is open while any of them exists, or memory that belongs
// to none.
type Device struct {
	Ordinal int
	Info    gpu.DeviceInfo
	Window  gpu.Range
	// context and heap are nil while the program has no context on the device.
	GPU  gpu.Context
	Heap *heap.Heap
	// opened is context once more, for those who hold no lock.
	Opened atomic.Pointer[gpu.Context]
	Users  int // contexts of the program
	Blocks int // allocations of the program that belong to no context
}

// Capability is the compute capability times ten.
func (d *Device) Capability() int {
	return int(
		d.Info.Attributes[abi.AttrComputeCapabilityMajor],
	)*10 + int(
		d.Info.Attributes[abi.AttrComputeCapabilityMinor],
	)
}

// Device returns a GPU by its ordinal.
func (s *Core) Device(ordinal int32) (*Device, error) {
	if ordinal < 0 || int(ordinal) >= len(s.Devices) {
		return nil, &gpu.Error{
			Op:     "find device",
			Code:   abi.InvalidDevice,
			Detail: fmt.Sprintf("there is no GPU %d", ordinal),
		}
	}
	return s.Devices[ordinal], nil
}

// CanReach reports whether the device's kernels can be allowed to touch the memory of another one.
func (d *Device) CanReach(ordinal int) bool {
	return ordinal >= 0 && d.Info.Attributes[abi.AttrPeers]>>ordinal&1 != 0
}

// CanShare reports whether other processes can have the device's memory at all.
func (d *Device) CanShare() bool {
	return d.Info.Attributes[abi.AttrHandleTypePOSIXFileDescriptorSupported] != 0
}

func (d *Device) Sharer() (gpu.Sharer, error) {
	memory, can := d.GPU.Memory().(gpu.Sharer)
	if !can || !d.CanShare() {
		return nil, &gpu.Error{
			Op:     "share memory",
			Code:   abi.NotSupported,
			Detail: fmt.Sprintf("GPU %d, %s, cannot share memory", d.Ordinal, d.Info.Name),
		}
	}
	return memory, nil
}
