package session

import (
	"fmt"
	"sync/atomic"

	"github.com/phos-gpu/phos/daemon/gpu"
	"github.com/phos-gpu/phos/daemon/session/heap"
	"github.com/phos-gpu/phos/daemon/session/object"
	"github.com/phos-gpu/phos/hijack/abi"
)

// device is one GPU. All contexts of the program on it share one gpu.Context, so that an address means the same memory in
// all of them; it is open while any of them exists.
type device struct {
	ordinal int
	info    gpu.DeviceInfo
	window  gpu.Range
	// context and heap are nil while the program has no context on the device.
	context gpu.Context
	heap    *heap.Heap
	// opened is context once more, for those who hold no lock.
	opened  atomic.Pointer[gpu.Context]
	users   int // contexts of the program
	primary primary
	// pools: the default one is never destroyed, the current one serves cuMemAllocAsync.
	defaultPool, currentPool *pool
}

func (s *Session) newDevice(ordinal int, info gpu.DeviceInfo) *device {
	d := &device{ordinal: ordinal, info: info, window: gpu.DefaultWindow(ordinal)}
	o := s.objects.Add(&object.Object{ID: uint64(s.objects.NextHandle(abi.KindMemoryPool)), Kind: abi.KindMemoryPool})
	d.defaultPool = &pool{object: o, device: d, reuse: [3]bool{true, true, true}}
	o.State = d.defaultPool
	d.currentPool = d.defaultPool
	return d
}

// capability is the compute capability times ten.
func (d *device) capability() int {
	return int(d.info.Attributes[abi.AttrComputeCapabilityMajor])*10 + int(d.info.Attributes[abi.AttrComputeCapabilityMinor])
}

// device returns a GPU by its ordinal.
func (s *Session) device(ordinal int32) (*device, error) {
	if ordinal < 0 || int(ordinal) >= len(s.devices) {
		return nil, &gpu.Error{Op: "find device", Code: abi.InvalidDevice, Detail: fmt.Sprintf("there is no GPU %d", ordinal)}
	}
	return s.devices[ordinal], nil
}

// holder returns the device in whose window an address lies, nil for the arena and everything else.
func (s *Session) holder(address uint64) *device {
	for _, d := range s.devices {
		if d.window.Contains(gpu.Range{Address: address}) {
			return d
		}
	}
	return nil
}

// open makes the device ready for one more context of the program.
func (s *Session) open(d *device) error {
	if d.context == nil {
		c, err := s.options.Backend.NewContext(d.ordinal, gpu.ContextOptions{Window: d.window, Output: s.answers.Print})
		if err != nil {
			return err
		}
		d.context, d.heap = c, heap.New(d.window, c.Memory())
		s.showAll(d, c)
	}
	d.users++
	return nil
}

// leave is open taken back. Everything that lives on the device is gone when its last user leaves.
func (s *Session) leave(d *device) {
	d.users--
	if d.users > 0 {
		return
	}
	s.showNothing(d)
	if err := d.context.Close(); err != nil {
		s.log.Warn("close GPU context", "gpu", d.ordinal, "error", err)
	}
	d.context, d.heap = nil, nil
}

// mapHost shows an allocation of the arena to the kernels of a device.
func mapHost(c gpu.Context, arena Arena, r gpu.Range) error {
	offset := r.Address - arena.Address()
	return c.Memory().MapHost(r.Address, arena.Bytes()[offset:offset+r.Bytes])
}
