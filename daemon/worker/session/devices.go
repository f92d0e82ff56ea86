package session

import (
	"fmt"
	"sync/atomic"

	"github.com/phos-gpu/phos/daemon/gpu"
	"github.com/phos-gpu/phos/daemon/worker/session/heap"
	"github.com/phos-gpu/phos/daemon/worker/session/object"
	"github.com/phos-gpu/phos/daemon/worker/session/saved"
	"github.com/phos-gpu/phos/hijack/abi"
)

// device is one GPU. All contexts of the program on it share one gpu.Context, so that an address
// means the same memory in all of them; it is open while any of them exists, or memory that belongs
// to none.
type device struct {
	ordinal int
	info    gpu.DeviceInfo
	window  gpu.Range
	// context and heap are nil while the program has no context on the device.
	context gpu.Context
	heap    *heap.Heap
	// opened is context once more, for those who hold no lock.
	opened  atomic.Pointer[gpu.Context]
	users  int // contexts of the program
	blocks int // allocations of the program that belong to no context
}

// addDefaultPool gives a new device the pool that it has from the first.
func (s *Session) addDefaultPool(d *device) {
	o := s.objects.Add(&object.Object{ID: uint64(s.objects.NextHandle(abi.KindMemoryPool)), Kind: abi.KindMemoryPool})
	p := &pool{object: o, device: d, reuse: [3]bool{true, true, true}}
	o.State = p
	s.pools[d.ordinal] = devicePools{standard: p, current: p}
}

// capability is the compute capability times ten.
func (d *device) capability() int {
	return int(
		d.info.Attributes[abi.AttrComputeCapabilityMajor],
	)*10 + int(
		d.info.Attributes[abi.AttrComputeCapabilityMinor],
	)
}

// device returns a GPU by its ordinal.
func (s *Session) device(ordinal int32) (*device, error) {
	if ordinal < 0 || int(ordinal) >= len(s.devices) {
		return nil, &gpu.Error{
			Op:     "find device",
			Code:   abi.InvalidDevice,
			Detail: fmt.Sprintf("there is no GPU %d", ordinal),
		}
	}
	return s.devices[ordinal], nil
}

// holder returns the device in whose window an address lies, or that has a variable there, nil for
// the arena and everything else.
func (s *Session) holder(address uint64) *device {
	for _, d := range s.devices {
		if d.window.Contains(gpu.Range{Address: address, Bytes: 1}) {
			return d
		}
	}
	if v, found := s.placed.at(address); found {
		return v.device
	}
	return nil
}

// open makes the device ready for one more context of the program.
func (s *Session) open(d *device) error {
	err := s.wake(d)
	if err == nil {
		d.users++
	}
	return err
}

// wake opens a device that is not open. Who calls it counts himself in users or blocks, or calls
// rest.
func (s *Session) wake(d *device) error {
	if d.context != nil {
		return nil
	}
	return s.connect(d, gpu.Continuation{}, func(memory gpu.Memory) (*heap.Heap, error) {
		lower, _ := gpu.Split(d.window)
		return heap.New(lower, memory), nil
	})
}

// connect makes the GPU context of a device, and the heap in its memory.
func (s *Session) connect(d *device, resumed gpu.Continuation, makeHeap func(gpu.Memory) (*heap.Heap, error)) error {
	c, err := s.options.Backend.NewContext(d.ordinal, gpu.ContextOptions{
		Window: d.window, Output: s.answers.Print, Late: s.failLater, Resumed: resumed,
	})
	if err != nil {
		return err
	}
	d.context = c
	s.loader.Opened(d)
	if _, keeps := c.Memory().(gpu.Keeper); keeps {
		s.deferFrees()
	}
	if d.heap, err = makeHeap(c.Memory()); err != nil {
		_ = c.Close() // the first error says more
		d.context = nil
		return err
	}
	if err = s.showAll(d, c); err == nil {
		err = s.showMappings(d)
	}
	if err != nil {
		s.showNothing(d)
		_ = c.Close()
		d.context, d.heap = nil, nil
	}
	return err
}

// leave is open taken back.
func (s *Session) leave(d *device) {
	d.users--
	s.rest(d)
}

// rest closes a device that nobody needs any more. Everything that lives on it is gone then.
func (s *Session) rest(d *device) {
	if d.users > 0 || d.blocks > 0 || d.context == nil {
		return
	}
	var orphans []*object.Object // what contexts of other devices have from a pool of this one goes with its memory
	for o := range s.objects.Records() {
		if a, is := o.State.(*allocation); is && a.heap == d.heap {
			orphans = append(orphans, o)
		}
	}
	for _, o := range orphans {
		s.destroy(o)
	}
	s.hideMappings(d)
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

// saveDevice writes down what the device keeps beside its objects.
func (s *Session) saveDevice(k *saving, d *device, out *saved.Device) {
	pools := s.pools[d.ordinal]
	out.Window = d.window
	out.DefaultPool, out.CurrentPool = pools.standard.object.Handle(), pools.current.object.Handle()
	if d.context == nil {
		return
	}
	out.Spare = d.heap.Spare()
	out.Continuation = k.resumable(d).Continuation()
	if err := d.context.Fault(); err != nil {
		out.Fault = saved.Fault{Code: gpu.Code(err), Text: err.Error()}
	}
}

// restoreWindows gives the devices the addresses that they had, which need not be those that a new session
// gets: the program knows pointers into them.
func (s *Session) restoreWindows(r *restoring) error {
	taken := []gpu.Range{{Address: s.options.Arena.Address(), Bytes: uint64(len(s.options.Arena.Bytes()))}}
	for i, d := range s.devices {
		w := r.in.Devices[i].Window
		if w.Bytes == 0 || w.Bytes > gpu.MostWindowBytes || w.Address > addressLimit-w.Bytes ||
			(w.Address|w.Bytes)%gpu.ChunkBytes != 0 {
			return damaged("GPU %d cannot have had addresses %#x+%#x", i, w.Address, w.Bytes)
		}
		for _, other := range taken {
			if w.Address < other.End() && other.Address < w.End() {
				return damaged("GPU %d had addresses of something else, %#x+%#x", i, w.Address, w.Bytes)
			}
		}
		d.window, taken = w, append(taken, w)
	}
	s.newSpace()
	return nil
}

// addressLimit is beyond all addresses that a process can have.
const addressLimit = 1 << 47

// restoreDevice makes a device what it was, but for its objects: it is open if any context is on it.
func (s *Session) restoreDevice(r *restoring, d *device, in *saved.Device, open bool) error {
	live := s.live[d]
	if !open {
		if len(live) > 0 {
			return damaged("memory of GPU %d has no context", d.ordinal)
		}
		return nil
	}
	return s.connect(d, in.Continuation, func(memory gpu.Memory) (*heap.Heap, error) {
		if err := s.loader.Reload(r, d); err != nil {
			return nil, err
		}
		var backing heap.Backing = memory
		if s.options.Backing != nil {
			backing = s.options.Backing(d.ordinal, memory)
		}
		lower, _ := gpu.Split(d.window)
		return heap.Restore(lower, backing, live, in.Spare)
	})
}

// restorePools gives the device its pools, once they are made.
func (s *Session) restorePools(r *restoring) error {
	for i, d := range s.devices {
		in := &r.in.Devices[i]
		for _, p := range []struct {
			pool   **pool
			handle abi.Handle
		}{{&s.pools[i].standard, in.DefaultPool}, {&s.pools[i].current, in.CurrentPool}} {
			found, err := s.pool(p.handle)
			if err != nil || found.device != d {
				return damaged("GPU %d has no pool %v", d.ordinal, p.handle)
			}
			*p.pool = found
		}
	}
	return nil
}

// fault is an error that was saved.
type fault saved.Fault

func (f *fault) Error() string { return f.Text }

// Unwrap is the driver's code.
func (f *fault) Unwrap() error { return f.Code }

// poison gives the device back the fault that it had. Nothing can be made on it afterwards.
func poison(d *device, in saved.Fault) error {
	if in.Code == abi.Success {
		return nil
	}
	c, can := d.context.(gpu.Resumable)
	if !can {
		return damaged("GPU %d has a fault and no context that can have it", d.ordinal)
	}
	f := fault(in)
	c.Poison(&f)
	return nil
}

// saveMemory writes what is beside the objects.
func (s *Session) saveMemory(k *saving) {
	for i, d := range s.devices {
		s.saveDevice(k, d, &k.out.Devices[i])
	}
	k.out.Reservations = s.saveReservations()
}

// restoreMemory makes the state of an object, nil for an object of another topic.
func (s *Session) restoreMemory(r *restoring, o *object.Object, in saved.State) (any, error) {
	switch in := in.(type) {
	case *saved.Memory:
		return s.restoreAllocation(r, o, in)
	case *saved.Pool:
		return s.restorePool(r, o, in)
	case *saved.Block:
		return s.restoreBlock(r, o, in)
	case *saved.Registered:
		return s.restoreRegistered(r, o, in)
	case *saved.Import:
		return s.restoreImported(r, o, in)
	}
	return nil, nil
}

// releaseMemory frees what an object held when it is destroyed, by itself or with its parent.
func (s *Session) releaseMemory(o *object.Object) {
	switch state := o.State.(type) {
	case *allocation:
		state.free(s)
	case *imported:
		state.drop(s)
	}
}

// restoreFaults gives the devices back the faults that they had. Nothing can be made on them
// afterwards.
func (s *Session) restoreFaults(r *restoring) error {
	for i, d := range s.devices {
		if err := poison(d, r.in.Devices[i].Fault); err != nil {
			return err
		}
	}
	return nil
}

// Loader is told of devices that open, for code that a driver places there.
type Loader interface {
	// Opened is called when a device has been opened, before anything is loaded there.
	Opened(d *device)
	// Reload loads code again as it was loaded before, first of all that a restored session does with
	// a device.
	Reload(r *restoring, d *device) error
}
