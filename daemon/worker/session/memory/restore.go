package memory

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/phos-gpu/phos/daemon/gpu"
	"github.com/phos-gpu/phos/daemon/worker/ipc"
	"github.com/phos-gpu/phos/daemon/worker/session/core"
	"github.com/phos-gpu/phos/daemon/worker/session/heap"
	"github.com/phos-gpu/phos/daemon/worker/session/object"
	"github.com/phos-gpu/phos/daemon/worker/session/saved"
	"github.com/phos-gpu/phos/hijack/abi"
)

// RestoreWindows gives the devices the addresses that they had, which need not be those that a new
// session gets: the program knows pointers into them.
func (s *Memory) RestoreWindows(r *core.Decoder) error {
	taken := []gpu.Range{{Address: s.Options.Arena.Address(), Bytes: uint64(len(s.Options.Arena.Bytes()))}}
	for i, d := range s.Devices {
		w := r.In.Devices[i].Window
		if w.Bytes == 0 || w.Bytes > gpu.MaxWindowBytes || w.Address > addressLimit-w.Bytes ||
			(w.Address|w.Bytes)%gpu.ChunkBytes != 0 {
			return core.Damaged("GPU %d cannot have had addresses %#x+%#x", i, w.Address, w.Bytes)
		}
		for _, other := range taken {
			if w.Address < other.End() && other.Address < w.End() {
				return core.Damaged("GPU %d had addresses of something else, %#x+%#x", i, w.Address, w.Bytes)
			}
		}
		d.Window, taken = w, append(taken, w)
	}
	s.newSpace()
	return nil
}

// addressLimit is beyond all addresses that a process can have.
const addressLimit = 1 << 47

// restoreDevice makes a device what it was, but for its objects: it is open if any context is on
// it.
func (s *Memory) restoreDevice(r *core.Decoder, d *core.Device, in *saved.Device, open bool) error {
	live := s.live[d]
	if !open {
		if len(live) > 0 {
			return core.Damaged("memory of GPU %d has no context", d.Ordinal)
		}
		return nil
	}
	return s.connect(d, in.Continuation, func(memory gpu.Memory) (*heap.Heap, error) {
		if err := s.Loader.Reload(r, d); err != nil {
			return nil, err
		}
		var backing heap.Backing = memory
		if s.Options.Backing != nil {
			backing = s.Options.Backing(d.Ordinal, memory)
		}
		lower, _ := gpu.SplitWindow(d.Window)
		return heap.Restore(lower, backing, live, in.Spare)
	})
}

// RestorePools gives the device its pools, once they are made.
func (s *Memory) RestorePools(r *core.Decoder) error {
	for i, d := range s.Devices {
		in := &r.In.Devices[i]
		for _, p := range []struct {
			pool   **pool
			handle abi.Handle
		}{{&s.pools[i].standard, in.DefaultPool}, {&s.pools[i].current, in.CurrentPool}} {
			found, err := s.pool(p.handle)
			if err != nil || found.device != d {
				return core.Damaged("GPU %d has no pool %v", d.Ordinal, p.handle)
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
func poison(d *core.Device, in saved.Fault) error {
	if in.Code == abi.Success {
		return nil
	}
	c, ok := d.GPU.(gpu.Resumable)
	if !ok {
		return core.Damaged("GPU %d has a fault and no context that can have it", d.Ordinal)
	}
	f := fault(in)
	c.Poison(&f)
	return nil
}

// RestoreFaults gives the devices back the faults that they had. Nothing can be made on them
// afterwards.
func (s *Memory) RestoreFaults(r *core.Decoder) error {
	for i, d := range s.Devices {
		if err := poison(d, r.In.Devices[i].Fault); err != nil {
			return err
		}
	}
	return nil
}

// RestorePlaces takes the addresses of everything in the arena, and finds those of each device.
func (s *Memory) RestorePlaces(r *core.Decoder) error {
	s.live = map[*core.Device][]gpu.Range{}
	for i := range r.In.Objects {
		o := &r.In.Objects[i]
		switch state := o.State.(type) {
		case *saved.Memory:
			if err := s.placeAt(gpu.Range{Address: o.ID, Bytes: state.Bytes}, o.Kind == object.KindPinned); err != nil {
				return err
			}
		case *saved.Block:
			if state.Token.Exporter != (ipc.ID{}) {
				continue // it is not the heap's
			}
			if err := s.placeAt(state.Home, false); err != nil {
				return err
			}
		case *saved.Module:
			for _, v := range state.Variables {
				if err := s.placeAt(v.Range, v.Managed); err != nil {
					return err
				}
			}
		}
	}
	for _, ranges := range s.live {
		slices.SortFunc(ranges, func(a, b gpu.Range) int { return cmp.Compare(a.Address, b.Address) })
	}
	return nil
}

// placeAt reserves a saved range in the arena, or notes it as live on its GPU.
func (s *Memory) placeAt(at gpu.Range, inArena bool) error {
	if inArena {
		return s.arena.AllocateAt(at)
	}
	d := s.holder(at.Address)
	if d == nil {
		return core.Damaged("%#x is no address of a GPU", at.Address)
	}
	s.live[d] = append(s.live[d], at)
	return nil
}

// RestoreDevices opens those that have contexts, or memory that belongs to none.
func (s *Memory) RestoreDevices(r *core.Decoder) error {
	open := make([]bool, len(s.Devices))
	for i := range r.In.Objects {
		device := int32(-1)
		switch state := r.In.Objects[i].State.(type) {
		case *saved.Context:
			device = state.Device
		case *saved.Block:
			device = state.Device
		}
		if device >= 0 && int(device) < len(open) {
			open[device] = true
		}
	}
	for i, d := range s.Devices {
		if err := s.restoreDevice(r, d, &r.In.Devices[i], open[i]); err != nil {
			return fmt.Errorf("GPU %d: %w", i, err)
		}
	}
	s.live = nil
	return nil
}
