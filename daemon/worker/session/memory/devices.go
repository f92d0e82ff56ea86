package memory

import (
	"github.com/phos-gpu/phos/daemon/gpu"
	"github.com/phos-gpu/phos/daemon/worker/session/core"
	"github.com/phos-gpu/phos/daemon/worker/session/heap"
	"github.com/phos-gpu/phos/daemon/worker/session/object"
	"github.com/phos-gpu/phos/daemon/worker/session/saved"
	"github.com/phos-gpu/phos/daemon/worker/session/virtual"
	"github.com/phos-gpu/phos/hijack/abi"
)

// addDefaultPool gives a new device the pool that it has from the first.
func (s *Memory) addDefaultPool(d *core.Device) {
	o := s.Objects.Add(&object.Object{ID: uint64(s.Objects.NextHandle(abi.KindMemoryPool)), Kind: abi.KindMemoryPool})
	p := &pool{object: o, device: d, reuse: [3]bool{true, true, true}}
	o.State = p
	s.pools[d.Ordinal] = devicePools{standard: p, current: p}
}

// holder returns the device in whose window an address lies, or that has a variable there, nil for
// the arena and everything else.
func (s *Memory) holder(address uint64) *core.Device {
	for _, d := range s.Devices {
		if d.Window.Contains(gpu.Range{Address: address, Bytes: 1}) {
			return d
		}
	}
	if v, found := s.placed.at(address); found {
		return v.device
	}
	return nil
}

// OpenDevice makes the device ready for one more context of the program.
func (s *Memory) OpenDevice(d *core.Device) error {
	err := s.ensureOpen(d)
	if err == nil {
		d.Users++
	}
	return err
}

// ensureOpen opens a device that is not open. The caller must count itself in Users or Blocks, or
// call closeLater.
func (s *Memory) ensureOpen(d *core.Device) error {
	if d.GPU != nil {
		return nil
	}
	return s.connect(d, gpu.Continuation{}, func(memory gpu.Memory) (*heap.Heap, error) {
		lower, _ := gpu.SplitWindow(d.Window)
		return heap.New(lower, memory), nil
	})
}

// connect makes the GPU context of a device, and the heap in its memory.
func (s *Memory) connect(
	d *core.Device,
	resumed gpu.Continuation,
	makeHeap func(gpu.Memory) (*heap.Heap, error),
) error {
	c, err := s.Options.Backend.NewContext(d.Machine, gpu.ContextOptions{
		Window: d.Window, Output: s.Answers.Print, OnRefused: s.FailLater, Resumed: resumed,
	})
	if err != nil {
		return err
	}
	d.GPU = c
	s.Loader.Opened(d)
	if _, ok := c.Memory().(gpu.ReclaimableMemory); ok {
		s.reclaim.DeferFrees()
	}
	if d.Heap, err = makeHeap(c.Memory()); err != nil {
		_ = c.Close() // the first error says more
		d.GPU = nil
		return err
	}
	if err = s.host.open(d, c); err == nil {
		err = s.showMappings(d)
	}
	if err != nil {
		s.host.close(d)
		_ = c.Close()
		d.GPU, d.Heap = nil, nil
	}
	return err
}

// CloseDevice is open taken back. If frees are deferred and nothing else uses the device, all GPUs
// are idle.
func (s *Memory) CloseDevice(d *core.Device) {
	d.Users--
	s.closeUnused(d)
}

// inUse reports whether a device has contexts or blocks.
func inUse(d *core.Device) bool { return d.Users > 0 || d.Blocks > 0 }

// closeLater closes a device unless it is in use: at once, or, if frees are deferred, when all GPUs
// are idle. Closing releases memory, for which a driver waits until all work is done; work may wait
// for the program's next call.
func (s *Memory) closeLater(d *core.Device) {
	if !s.reclaim.Defers() {
		s.closeUnused(d)
		return
	}
	if inUse(d) || d.GPU == nil || s.closing[d] {
		return
	}
	s.closing[d] = true
	go func() {
		d.WaitReleased()
		_ = s.reclaim.WhenIdle(func() error { // a session that closes closes its devices
			delete(s.closing, d)
			s.closeUnused(d)
			return nil
		})
	}()
}

// Closing lists the devices that are closed as soon as all GPUs are idle.
func (s *Memory) Closing() []*core.Device {
	var found []*core.Device
	for _, d := range s.Devices {
		if s.closing[d] {
			found = append(found, d)
		}
	}
	return found
}

// closeUnused closes a device unless it is in use, and frees all memory on it.
func (s *Memory) closeUnused(d *core.Device) {
	if inUse(d) || d.GPU == nil {
		return
	}
	var orphans []*object.Object // what contexts of other devices have from a pool of this one goes with its memory
	for o := range s.Objects.Records() {
		if a, ok := o.State.(*allocation); ok && a.heap == d.Heap {
			orphans = append(orphans, o)
		}
	}
	for _, o := range orphans {
		s.Destroy(o)
	}
	s.hideMappings(d)
	s.host.close(d)
	if err := d.GPU.Close(); err != nil {
		s.Log.Warn("close GPU context", "gpu", d.Ordinal, "error", err)
	}
	d.GPU, d.Heap = nil, nil
}

// saveDevice writes down what the device keeps beside its objects.
func (s *Memory) saveDevice(e *core.Encoder, d *core.Device, out *saved.Device) {
	pools := s.pools[d.Ordinal]
	out.Window = d.Window
	out.DefaultPool, out.CurrentPool = pools.standard.object.Handle(), pools.current.object.Handle()
	if d.GPU == nil {
		return
	}
	out.Spare = d.Heap.Spare()
	out.Continuation = e.Resumable(d).Continuation()
	if err := d.GPU.Fault(); err != nil {
		out.Fault = saved.Fault{Code: gpu.Code(err), Text: err.Error()}
	}
}

// Save writes what is beside the objects.
func (s *Memory) Save(e *core.Encoder) {
	for i, d := range s.Devices {
		s.saveDevice(e, d, &e.Out.Devices[i])
	}
	e.Out.Reservations = s.saveReservations()
}

// Restore makes the state of an object, nil for an object of another topic.
func (s *Memory) Restore(r *core.Decoder, o *object.Object, in saved.State) (core.State, error) {
	switch in := in.(type) {
	case *saved.Memory:
		return s.restoreAllocation(r, o, in)
	case *saved.Pool:
		return s.restorePool(o, in)
	case *saved.Block:
		return s.restoreBlock(r, o, in)
	case *saved.Registered:
		return s.restoreRegistered(o, in)
	case *saved.Import:
		return s.restoreImported(o, in)
	}
	return nil, nil
}

// Release frees what an object held when it is destroyed, by itself or with its parent.
func (s *Memory) Release(o *object.Object) {
	switch state := o.State.(type) {
	case *allocation:
		state.free(s)
	case *imported:
		state.drop(s)
	}
}

// Loader is told of devices that open, for code that a driver places there.
type Loader interface {
	// Opened is called when a device has been opened, before anything is loaded there.
	Opened(d *core.Device)
	// Reload loads code again as it was loaded before, first of all that a restored session does with
	// a device.
	Reload(r *core.Decoder, d *core.Device) error
}

// newSpace gives the program its part of each device's window, to reserve addresses there, but for
// the last part of that.
func (s *Memory) newSpace() {
	var forProgram, forGuests []gpu.Range
	for _, d := range s.Devices {
		_, upper := gpu.SplitWindow(d.Window)
		guests := upper.Bytes / 16 &^ (gpu.ChunkBytes - 1)
		upper.Bytes -= guests
		forProgram = append(forProgram, upper)
		forGuests = append(forGuests, gpu.Range{Address: upper.End(), Bytes: guests})
	}
	s.virtual = virtual.New(forProgram, forGuests)
}
