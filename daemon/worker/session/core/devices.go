package core

import (
	"fmt"
	"sync/atomic"

	"github.com/phos-gpu/phos/daemon/gpu"
	"github.com/phos-gpu/phos/daemon/worker/session/heap"
	"github.com/phos-gpu/phos/hijack/abi"
)

// Device is one GPU. All contexts of the program on it share one gpu.Context, so that an address
// means the same memory in all of them; it is open while any of them exists, or memory that belongs
// to none.
type Device struct {
	// Ordinal is the program's number of the GPU, Machine the backend's and other sessions'.
	Ordinal, Machine int
	Info             gpu.DeviceInfo
	Window           gpu.Range
	// GPU and Heap are nil while the device is not open.
	GPU  gpu.Context
	Heap *heap.Heap
	// Opened is GPU again, for readers without the lock.
	Opened atomic.Pointer[gpu.Context]
	Users  int // contexts on the device
	Blocks int // allocations that belong to no context
}

// Capability is the compute capability times ten.
func (d *Device) Capability() int {
	major, minor := d.Info.Attributes[abi.AttrComputeCapabilityMajor], d.Info.Attributes[abi.AttrComputeCapabilityMinor]
	return int(major)*10 + int(minor)
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

// OfMachine returns the program's GPU with a number of the backend; nil if the program does not see
// it.
func (s *Core) OfMachine(ordinal int32) *Device {
	for _, d := range s.Devices {
		if d.Machine == int(ordinal) {
			return d
		}
	}
	return nil
}

// CanReach reports whether the device's kernels can be allowed to touch the memory of another one.
func (d *Device) CanReach(ordinal int) bool {
	return ordinal >= 0 && d.Info.Attributes[abi.AttrPeers]>>ordinal&1 != 0
}

// CanShare reports whether other processes can have the device's memory at all.
func (d *Device) CanShare() bool {
	return d.Info.Attributes[abi.AttrHandleTypePOSIXFileDescriptorSupported] != 0
}

// Sharer returns the device's memory as other sessions can import it.
func (d *Device) Sharer() (gpu.Sharer, error) {
	memory, ok := d.GPU.Memory().(gpu.Sharer)
	if !ok || !d.CanShare() {
		return nil, &gpu.Error{
			Op:     "share memory",
			Code:   abi.NotSupported,
			Detail: fmt.Sprintf("GPU %d, %s, cannot share memory", d.Ordinal, d.Info.Name),
		}
	}
	return memory, nil
}

// WaitReleased waits until no checkpoint reads the device's memory any longer: the device may then
// be closed. It needs no lock.
func (d *Device) WaitReleased() {
	if opened := d.Opened.Load(); opened != nil {
		if m, ok := (*opened).Memory().(gpu.Shadower); ok {
			m.WaitReleased()
		}
	}
}
