package memory

import (
	"fmt"
	"slices"

	"github.com/phos-gpu/phos/daemon/gpu"
	"github.com/phos-gpu/phos/daemon/worker/session/core"
	"github.com/phos-gpu/phos/daemon/worker/session/saved"
	"github.com/phos-gpu/phos/daemon/worker/session/virtual"
	"github.com/phos-gpu/phos/hijack/abi"
	"github.com/phos-gpu/phos/hijack/wire"
)

// CheckRange returns the device that work of device d finds a range of memory on, nil for the
// arena; abi.InvalidValue when it is not all allocated.
func (s *Memory) CheckRange(d *core.Device, r gpu.Range, write bool) (*core.Device, error) {
	if m := s.virtual.At(r.Address); m != nil {
		through := s.DeviceFor(d, r.Address)
		return through, s.mayTouch(through, r, write)
	}
	if i := s.importAt(r.Address); i != nil {
		if !i.bounds.Contains(r) {
			return nil, core.Invalid("access shared memory", "the range is not part of one allocation")
		}
		return i.context.Device, nil
	}
	holder := s.holder(r.Address)
	var found gpu.Range
	var ok bool
	switch {
	case holder == nil:
		if found, ok = s.arena.Find(r.Address); !ok {
			found, ok = s.host.find(r)
		}
	case holder.Heap != nil && holder.Window.Contains(r):
		found, ok = holder.Heap.Find(r.Address)
	default:
		var v placedRange
		v, ok = s.placed.at(r.Address)
		found = v.Range
	}
	if !ok || !found.Contains(r) {
		return nil, core.Invalid(
			"access device memory",
			fmt.Sprintf("%#x+%#x is not part of one allocation", r.Address, r.Bytes),
		)
	}
	return holder, nil
}

func (s *Memory) memAddressReserve(
	call *core.Call,
	in *wire.MemAddressReserve,
	out *wire.MemAddressReserveReply,
) error {
	if in.Flags != 0 {
		return core.Invalid("reserve addresses", "flags")
	}
	near := 0
	if c := s.Contexts[call.Context]; c != nil {
		near = c.Device.Ordinal
	}
	r, err := s.virtual.Reserve(near, in.Size, in.Alignment, in.Addr)
	if err == nil {
		out.Ptr = r.Address
	}
	return err
}

func (s *Memory) memAddressFree(_ *core.Call, in *wire.MemAddressFree) error {
	return s.virtual.Free(gpu.Range{Address: in.Ptr, Bytes: in.Size})
}

func (s *Memory) vmmMap(_ *core.Call, in *wire.VmmMap, out *wire.VmmMapReply) error {
	b, err := s.block(in.Handle)
	if err != nil {
		return err
	}
	if in.Size > b.home.Bytes {
		return core.Invalid("map memory", "the allocation is smaller")
	}
	if _, err := s.virtual.Map(gpu.Range{Address: in.Ptr, Bytes: in.Size}, in.Handle); err != nil {
		return err
	}
	b.mappings++
	out.Device, out.HandleTypes = int32(b.device.Ordinal), b.handleTypes
	return nil
}

// memUnmap waits for what was submitted before: the driver does so too, though it promises nothing.
func (s *Memory) memUnmap(call *core.Call, in *wire.MemUnmap) error {
	r := gpu.Range{Address: in.Ptr, Bytes: in.Size}
	if _, err := s.virtual.Whole(r); err != nil {
		return err
	}
	return s.reclaim.AfterWork(call, func() error { return s.unmap(r) })
}

func (s *Memory) unmap(r gpu.Range) error {
	mappings, err := s.virtual.Whole(r)
	if err != nil {
		return err
	}
	s.virtual.Unmap(mappings)
	for _, m := range mappings {
		for ordinal, access := range m.Access {
			if access != virtual.None {
				s.hideMapping(s.Devices[ordinal], m)
			}
		}
		b := s.mapped(m)
		b.mappings--
		s.dropBlock(b)
	}
	return nil
}

func (s *Memory) vmmSetAccess(call *core.Call, in *wire.VmmSetAccess) error {
	d, err := s.Device(in.Device)
	if err != nil {
		return err
	}
	access := virtual.Access(in.Flags)
	if uint32(access) != in.Flags || access != virtual.None && access != virtual.Read && access != virtual.ReadWrite {
		return core.Invalid("set access", "flags")
	}
	r := gpu.Range{Address: in.Ptr, Bytes: in.Size}
	mappings, err := s.virtual.Whole(r)
	if err != nil {
		return err
	}
	less := func(m *virtual.Mapping) bool { return m.Access[d.Ordinal] > access }
	if !slices.ContainsFunc(mappings, less) {
		return s.allowAll(d, r, access)
	}
	return s.reclaim.AfterWork(call, func() error { return s.allowAll(d, r, access) })
}

// allowAll sets a device's access to all mappings of a range.
func (s *Memory) allowAll(d *core.Device, r gpu.Range, access virtual.Access) error {
	mappings, err := s.virtual.Whole(r)
	for _, m := range mappings {
		if err := s.allow(d, m, access); err != nil {
			return err
		}
	}
	return err
}

// allow lets a device do what it may, and no more, from now on.
func (s *Memory) allow(d *core.Device, m *virtual.Mapping, access virtual.Access) error {
	if m.Access[d.Ordinal] == access {
		return nil
	}
	if access == virtual.None {
		s.hideMapping(d, m)
	} else if err := s.showMapping(d, m, access); err != nil {
		return err
	}
	m.Access[d.Ordinal] = access
	return nil
}

// showMapping shows a mapping to the kernels of a device, if it is open.
func (s *Memory) showMapping(d *core.Device, m *virtual.Mapping, access virtual.Access) error {
	if d.GPU == nil {
		return nil
	}
	memory, ok := d.GPU.Memory().(gpu.Aliaser)
	if !ok {
		return cannotMap(d)
	}
	b := s.mapped(m)
	if b.device.GPU == nil {
		return &gpu.Error{Op: "map memory", Code: abi.ContextIsDestroyed}
	}
	return memory.Alias(
		m.Address,
		b.device.GPU.Memory(),
		gpu.Range{Address: b.home.Address, Bytes: m.Bytes},
		access == virtual.ReadWrite,
	)
}

// cannotMap returns the error of a backend that cannot map memory at a second address.
func cannotMap(d *core.Device) error {
	return &gpu.Error{
		Op:     "map memory",
		Code:   abi.NotSupported,
		Detail: d.Info.Name + " cannot show memory at further addresses",
	}
}

// hideMapping removes a mapping from the GPU, if its device is open. An error is only logged.
func (s *Memory) hideMapping(d *core.Device, m *virtual.Mapping) {
	if d.GPU == nil {
		return
	}
	if err := d.GPU.Memory().(gpu.Aliaser).Unalias(m.Address); err != nil {
		s.Log.Warn("unmap memory", "gpu", d.Ordinal, "address", m.Address, "error", err)
	}
}

// showMappings makes a device that has just been opened see all that it may.
func (s *Memory) showMappings(d *core.Device) error {
	for m := range s.virtual.Mappings() {
		if access := m.Access[d.Ordinal]; access != virtual.None {
			if err := s.showMapping(d, m, access); err != nil {
				return fmt.Errorf("map memory at %#x: %w", m.Address, err)
			}
		}
	}
	return nil
}

// hideMappings comes before a device is closed.
func (s *Memory) hideMappings(d *core.Device) {
	for m := range s.virtual.Mappings() {
		if m.Access[d.Ordinal] != virtual.None {
			s.hideMapping(d, m)
		}
	}
}

// DeviceFor returns the device by which work of a device gets to an address: itself where that may
// touch it, else the one that has the memory, or nil for what is on none.
func (s *Memory) DeviceFor(d *core.Device, address uint64) *core.Device {
	m := s.virtual.At(address)
	if m == nil {
		return s.holder(address)
	}
	if m.Access[d.Ordinal] != virtual.None {
		return d
	}
	return s.mapped(m).device
}

// mayTouch checks a whole range of mappings, as one device sees them.
func (s *Memory) mayTouch(d *core.Device, r gpu.Range, write bool) error {
	if !s.virtual.Covers(r) {
		return core.Invalid("access mapped memory", "not all of the range is mapped")
	}
	for at := r.Address; at < r.End(); {
		m := s.virtual.At(at)
		if access := m.Access[d.Ordinal]; access == virtual.None || write && access != virtual.ReadWrite {
			return core.Invalid("access mapped memory", fmt.Sprintf("GPU %d may not do that at %#x", d.Ordinal, at))
		}
		at = m.End()
	}
	return nil
}

// saveReservations returns all reservations with their mappings as plain data.
func (s *Memory) saveReservations() (out []saved.Reservation) {
	for r := range s.virtual.Reservations() {
		to := saved.Reservation{Range: r.Range}
		for _, m := range r.Mappings {
			access := make([]uint8, len(m.Access))
			for i, a := range m.Access {
				access[i] = uint8(a)
			}
			to.Mappings = append(to.Mappings, saved.Mapping{Range: m.Range, Allocation: m.Allocation, Access: access})
		}
		out = append(out, to)
	}
	return out
}

// RestoreReservations reserves and maps again what was, once the allocations are there.
func (s *Memory) RestoreReservations(r *core.Decoder) error {
	for i := range r.In.Reservations {
		in := &r.In.Reservations[i]
		if err := s.virtual.ReserveAt(in.Range); err != nil {
			return core.Damaged("addresses: %v", err)
		}
		for j := range in.Mappings {
			if err := s.restoreMapping(&in.Mappings[j]); err != nil {
				return fmt.Errorf("map memory at %#x: %w", in.Mappings[j].Address, err)
			}
		}
	}
	for o := range s.Objects.Records() {
		if b, ok := o.State.(*block); ok && b.references == 0 && b.mappings == 0 {
			return core.Damaged("nothing leads to %v", o.Handle())
		}
	}
	return nil
}

func (s *Memory) restoreMapping(in *saved.Mapping) error {
	o := s.Objects.Get(uint64(in.Allocation))
	if o == nil || len(in.Access) != len(s.Devices) {
		return core.Damaged("there is no %v", in.Allocation)
	}
	b, ok := o.State.(*block)
	if !ok || in.Bytes > b.home.Bytes {
		return core.Damaged("%v is smaller", in.Allocation)
	}
	m, err := s.virtual.Map(in.Range, in.Allocation)
	if err != nil {
		return core.Damaged("%v", err)
	}
	b.mappings++
	for ordinal, access := range in.Access {
		if a := virtual.Access(access); a != virtual.None && a != virtual.Read && a != virtual.ReadWrite {
			return core.Damaged("access %d", access)
		} else if b.foreign() {
			m.Access[ordinal] = a // shown when the memory is there
		} else if err := s.allow(s.Devices[ordinal], m, a); err != nil {
			return err
		}
	}
	return nil
}
