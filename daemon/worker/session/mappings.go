package session

import (
	"fmt"
	"slices"

	"github.com/phos-gpu/phos/daemon/gpu"
	"github.com/phos-gpu/phos/daemon/worker/session/saved"
	"github.com/phos-gpu/phos/daemon/worker/session/virtual"
	"github.com/phos-gpu/phos/hijack/abi"
	"github.com/phos-gpu/phos/hijack/wire"
)

func (s *Session) memAddressReserve(call *Call, in *wire.MemAddressReserve, out *wire.MemAddressReserveReply) error {
	if in.Flags != 0 {
		return invalid("reserve addresses", "flags")
	}
	near := 0
	if c := s.contexts[call.Context]; c != nil {
		near = c.device.ordinal
	}
	r, err := s.virtual.Reserve(near, in.Size, in.Alignment, in.Addr)
	if err == nil {
		out.Ptr = r.Address
	}
	return err
}

func (s *Session) memAddressFree(_ *Call, in *wire.MemAddressFree) error {
	return s.virtual.Free(gpu.Range{Address: in.Ptr, Bytes: in.Size})
}

func (s *Session) vmmMap(_ *Call, in *wire.VmmMap, out *wire.VmmMapReply) error {
	b, err := s.block(in.Handle)
	if err != nil {
		return err
	}
	if in.Size > b.home.Bytes {
		return invalid("map memory", "the allocation is smaller")
	}
	if _, err := s.virtual.Map(gpu.Range{Address: in.Ptr, Bytes: in.Size}, in.Handle); err != nil {
		return err
	}
	b.mappings++
	out.Device, out.HandleTypes = int32(b.device.ordinal), b.handleTypes
	return nil
}

// memUnmap waits for what was submitted before: the driver does so too, though it promises nothing.
func (s *Session) memUnmap(call *Call, in *wire.MemUnmap) error {
	r := gpu.Range{Address: in.Ptr, Bytes: in.Size}
	if _, err := s.virtual.Whole(r); err != nil {
		return err
	}
	return s.behind(call, func() error { return s.unmap(r) })
}

func (s *Session) unmap(r gpu.Range) error {
	mappings, err := s.virtual.Whole(r)
	if err != nil {
		return err
	}
	s.virtual.Unmap(mappings)
	for _, m := range mappings {
		for ordinal, access := range m.Access {
			if access != virtual.None {
				s.hideMapping(s.devices[ordinal], m)
			}
		}
		b := s.mapped(m)
		b.mappings--
		s.dropBlock(b)
	}
	return nil
}

func (s *Session) vmmSetAccess(call *Call, in *wire.VmmSetAccess) error {
	d, err := s.device(in.Device)
	if err != nil {
		return err
	}
	access := virtual.Access(in.Flags)
	if uint32(access) != in.Flags || access != virtual.None && access != virtual.Read && access != virtual.ReadWrite {
		return invalid("set access", "flags")
	}
	r := gpu.Range{Address: in.Ptr, Bytes: in.Size}
	mappings, err := s.virtual.Whole(r)
	if err != nil {
		return err
	}
	less := func(m *virtual.Mapping) bool { return m.Access[d.ordinal] > access }
	if !slices.ContainsFunc(mappings, less) {
		return s.allowAll(d, r, access)
	}
	return s.behind(call, func() error { return s.allowAll(d, r, access) })
}

func (s *Session) allowAll(d *device, r gpu.Range, access virtual.Access) error {
	mappings, err := s.virtual.Whole(r)
	for _, m := range mappings {
		if err := s.allow(d, m, access); err != nil {
			return err
		}
	}
	return err
}

// allow lets a device do what it may, and no more, from now on.
func (s *Session) allow(d *device, m *virtual.Mapping, access virtual.Access) error {
	if m.Access[d.ordinal] == access {
		return nil
	}
	if access == virtual.None {
		s.hideMapping(d, m)
	} else if err := s.showMapping(d, m, access); err != nil {
		return err
	}
	m.Access[d.ordinal] = access
	return nil
}

// showMapping shows a mapping to the kernels of a device, if it is open.
func (s *Session) showMapping(d *device, m *virtual.Mapping, access virtual.Access) error {
	if d.context == nil {
		return nil
	}
	memory, can := d.context.Memory().(gpu.Aliaser)
	if !can {
		return cannotMap(d)
	}
	b := s.mapped(m)
	if b.device.context == nil {
		return &gpu.Error{Op: "map memory", Code: abi.ContextIsDestroyed}
	}
	return memory.Alias(
		m.Address,
		b.device.context.Memory(),
		gpu.Range{Address: b.home.Address, Bytes: m.Bytes},
		access == virtual.ReadWrite,
	)
}

func cannotMap(d *device) error {
	return &gpu.Error{
		Op:     "map memory",
		Code:   abi.NotSupported,
		Detail: d.info.Name + " cannot show memory at further addresses",
	}
}

func (s *Session) hideMapping(d *device, m *virtual.Mapping) {
	if d.context == nil {
		return
	}
	if err := d.context.Memory().(gpu.Aliaser).Unalias(m.Address); err != nil {
		s.log.Warn("unmap memory", "gpu", d.ordinal, "address", m.Address, "error", err)
	}
}

// showMappings makes a device that has just been opened see all that it may.
func (s *Session) showMappings(d *device) error {
	for m := range s.virtual.Mappings() {
		if access := m.Access[d.ordinal]; access != virtual.None {
			if err := s.showMapping(d, m, access); err != nil {
				return fmt.Errorf("map memory at %#x: %w", m.Address, err)
			}
		}
	}
	return nil
}

// hideMappings comes before a device is closed.
func (s *Session) hideMappings(d *device) {
	for m := range s.virtual.Mappings() {
		if m.Access[d.ordinal] != virtual.None {
			s.hideMapping(d, m)
		}
	}
}

// reaches returns the device by which work of a device gets to an address: itself where that may
// touch it, else the one that has the memory, or nil for what is on none.
func (s *Session) reaches(d *device, address uint64) *device {
	m := s.virtual.At(address)
	if m == nil {
		return s.holder(address)
	}
	if m.Access[d.ordinal] != virtual.None {
		return d
	}
	return s.mapped(m).device
}

// mayTouch checks a whole range of mappings, as one device sees them.
func (s *Session) mayTouch(d *device, r gpu.Range, write bool) error {
	if !s.virtual.Covers(r) {
		return invalid("access mapped memory", "not all of the range is mapped")
	}
	for at := r.Address; at < r.End(); {
		m := s.virtual.At(at)
		if access := m.Access[d.ordinal]; access == virtual.None || write && access != virtual.ReadWrite {
			return invalid("access mapped memory", fmt.Sprintf("GPU %d may not do that at %#x", d.ordinal, at))
		}
		at = m.End()
	}
	return nil
}

func (s *Session) saveReservations() (out []saved.Reservation) {
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

// restoreReservations reserves and maps again what was, once the allocations are there.
func (s *Session) restoreReservations(r *restoring) error {
	for i := range r.in.Reservations {
		in := &r.in.Reservations[i]
		if err := s.virtual.ReserveAt(in.Range); err != nil {
			return damaged("addresses: %v", err)
		}
		for j := range in.Mappings {
			if err := s.restoreMapping(r, &in.Mappings[j]); err != nil {
				return fmt.Errorf("map memory at %#x: %w", in.Mappings[j].Address, err)
			}
		}
	}
	for o := range s.objects.Records() {
		if b, is := o.State.(*block); is && b.references == 0 && b.mappings == 0 {
			return damaged("nothing leads to %v", o.Handle())
		}
	}
	return nil
}

func (s *Session) restoreMapping(r *restoring, in *saved.Mapping) error {
	o := s.objects.Get(uint64(in.Allocation))
	if o == nil || len(in.Access) != len(s.devices) {
		return damaged("there is no %v", in.Allocation)
	}
	b, is := o.State.(*block)
	if !is || in.Bytes > b.home.Bytes {
		return damaged("%v is smaller", in.Allocation)
	}
	m, err := s.virtual.Map(in.Range, in.Allocation)
	if err != nil {
		return damaged("%v", err)
	}
	b.mappings++
	for ordinal, access := range in.Access {
		if a := virtual.Access(access); a != virtual.None && a != virtual.Read && a != virtual.ReadWrite {
			return damaged("access %d", access)
		} else if b.foreign() {
			m.Access[ordinal] = a // shown when the memory is there
		} else if err := s.allow(s.devices[ordinal], m, a); err != nil {
			return err
		}
	}
	return nil
}
