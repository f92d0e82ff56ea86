package cuda

import (
	"errors"
	"fmt"
	"slices"

	"github.com/phos-gpu/phos/cgo/cudadrv"
	"github.com/phos-gpu/phos/daemon/gpu"
	"github.com/phos-gpu/phos/hijack/abi"
)

// hostMapping is host memory that one or more contexts map. The driver pins it once.
type hostMapping struct {
	memory []byte
	users  map[*Context]struct{}
}

// Memory is the memory of a context's device.
type Memory struct {
	context *Context
	device  *device
	changes *changeFinder
}

func newMemory(c *Context, d *device) *Memory {
	m := &Memory{context: c, device: d}
	m.changes = newChanges(m)
	return m
}

// checkRange returns an error unless r is made of whole chunks in the window.
func (m *Memory) checkRange(op string, r gpu.Range) error {
	if r.Bytes == 0 || r.Address%gpu.ChunkBytes != 0 || r.Bytes%gpu.ChunkBytes != 0 || !m.device.window.Contains(r) {
		return gpu.Errorf(op, abi.InvalidValue,
			"%#x+%#x is not a range of whole chunks in the window", r.Address, r.Bytes)
	}
	return nil
}

// Map backs a range with zeroed memory.
func (m *Memory) Map(r gpu.Range) error { return m.mapWith(r, false) }

// MapWhole is Map for memory that will be aliased or shared.
func (m *Memory) MapWhole(r gpu.Range) error { return m.mapWith(r, true) }

// mapWith maps a range. If memory runs out, it takes memory from shadows.
func (m *Memory) mapWith(r gpu.Range, whole bool) error {
	if err := m.checkRange("map memory", r); err != nil {
		return err
	}
	return m.changes.reclaimFor(func() error { return m.mapNow(r, whole) })
}

// mapNow maps a range, charged to the ledger.
func (m *Memory) mapNow(r gpu.Range, whole bool) error {
	if err := m.context.usable("map memory"); err != nil {
		return err // after a fault, the table may be out of date
	}
	d := m.device
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.table.isFree(r) {
		return gpu.Errorf("map memory", abi.AlreadyMapped, "%#x+%#x", r.Address, r.Bytes)
	}
	if d.obstructed(r, whole) {
		return fmt.Errorf("map memory at %#x: %w", r.Address, gpu.ErrNotReclaimed)
	}
	if err := m.reserve(r.Bytes); err != nil {
		return err
	}
	if err := m.populate(r); err != nil {
		m.release(r.Bytes)
		return err
	}
	return nil
}

// obstructed reports whether an existing mapping prevents r from being mapped, or from becoming one
// mapping if whole is set. mu is held.
func (d *device) obstructed(r gpu.Range, whole bool) bool {
	kept := d.mappings.overlapping(r)
	for _, g := range kept {
		if g.foreign || g.shared || whole && g.Range != r {
			return true
		}
	}
	return false
}

// populate assigns memory to a range: unreclaimed mappings are reused, new ones fill the gaps. The
// device's mu is held.
func (m *Memory) populate(r gpu.Range) error {
	d, c := m.device, m.context
	at := r.Address
	for _, g := range append(d.mappings.overlapping(r), &mapping{Range: gpu.Range{Address: r.End()}}) {
		if g.Address > at {
			if err := m.newMapping(gpu.Range{Address: at, Bytes: g.Address - at}); err != nil {
				return err // the mappings made so far can be reclaimed
			}
		}
		at = g.End()
	}
	if err := c.zero(r); err != nil {
		return c.driverErr("map memory", err)
	}
	for _, g := range d.mappings.overlapping(r) {
		from, to := max(g.Address, r.Address), min(g.End(), r.End())
		d.assign(gpu.Range{Address: from, Bytes: to - from}, g, c)
	}
	return nil
}

// assign adds a part of a mapping to the table. mu is held.
func (d *device) assign(r gpu.Range, g *mapping, owner *Context) {
	d.table.add(piece{Range: r, mapping: g, owner: owner})
	g.used += r.Bytes
	d.reclaimable.Add(-int64(r.Bytes))
}

// unassign reverses assign. mu is held.
func (d *device) unassign(p piece) {
	d.table.remove(p.Address)
	p.mapping.used -= p.Bytes
	d.reclaimable.Add(int64(p.Bytes))
}

// newMapping allocates memory and maps it, not yet assigned. The device's mu is held.
func (m *Memory) newMapping(r gpu.Range) error {
	d := m.device
	allocation, err := d.create(r.Bytes)
	if o := m.context.backend.options; gpu.Code(err) == abi.OutOfMemory && o.Ledger != nil {
		if o.Ledger.RequestReclaim(int(d.ordinal), o.Slot) {
			return fmt.Errorf("map memory: GPU %d: %d bytes: %w", d.ordinal, r.Bytes, gpu.ErrReclaimPending)
		}
		allocation, err = d.create(r.Bytes) // another process may have just reclaimed it
	}
	if err != nil {
		return gpu.Errorf("map memory", gpu.Code(err), "GPU %d: %d bytes", d.ordinal, r.Bytes)
	}
	if err := d.mapFor(r, allocation, d.accessors); err != nil {
		return m.context.driverErr("map memory", err)
	}
	d.addMapping(&mapping{Range: r, allocation: allocation})
	return nil
}

// addMapping adds a mapping, all of it unassigned. mu is held.
func (d *device) addMapping(g *mapping) {
	d.mappings.add(g)
	d.reclaimable.Add(int64(g.Bytes))
}

// mapFor maps memory at a range and gives devices access. If that fails, it releases the memory.
func (d *device) mapFor(r gpu.Range, allocation cudadrv.Allocation, devices []int32) error {
	err := d.driver.Map(r.Address, r.Bytes, allocation)
	if err == nil {
		if err = d.driver.Allow(r.Address, r.Bytes, devices); err != nil {
			_ = d.driver.Unmap(r.Address, r.Bytes)
		}
	}
	if err != nil {
		_ = d.driver.Release(allocation)
	}
	return err
}

// reserve charges bytes to this worker in the ledger.
func (m *Memory) reserve(bytes uint64) error {
	if o := m.context.backend.options; o.Ledger != nil {
		return o.Ledger.Reserve(int(m.device.ordinal), o.Slot, bytes)
	}
	return nil
}

// release releases bytes in the ledger.
func (m *Memory) release(bytes uint64) {
	if o := m.context.backend.options; o.Ledger != nil {
		o.Ledger.Release(int(m.device.ordinal), o.Slot, bytes)
	}
}

// Unmap frees memory, whichever context of the device mapped it. The driver's mapping stays until
// Reclaim.
func (m *Memory) Unmap(r gpu.Range) error {
	if err := m.checkRange("unmap memory", r); err != nil {
		return err
	}
	d := m.device
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.table.covered(r.Address, r.Bytes) < r.Bytes {
		return gpu.Errorf("unmap memory", abi.NotMapped, "%#x+%#x", r.Address, r.Bytes)
	}
	pieces := slices.Clone(d.table.overlapping(r))
	for _, p := range pieces {
		switch g := p.mapping; {
		case g == nil:
			return gpu.Errorf("unmap memory", abi.NotMapped, "%#x was not mapped by Map", p.Address)
		case (g.foreign || g.shared) && !r.Contains(p.Range):
			return gpu.Errorf("unmap memory", abi.NotSupported,
				"memory shared with other processes can only be unmapped whole")
		}
	}
	for _, p := range pieces {
		d.unassign(p)
		for _, rest := range []gpu.Range{
			{Address: p.Address, Bytes: r.Address - min(p.Address, r.Address)}, {Address: r.End(), Bytes: p.End() - min(p.End(), r.End())},
		} {
			if rest.Bytes > 0 {
				d.assign(rest, p.mapping, p.owner)
				p.Bytes -= rest.Bytes
			}
		}
		m.uncharge(p)
	}
	m.context.backend.updateLedger()
	return nil
}

// updateLedger notes in the ledger whether this process has unreclaimed memory.
func (b *Backend) updateLedger() {
	if b.options.Ledger == nil {
		return
	}
	b.ledgerMu.Lock()
	defer b.ledgerMu.Unlock()
	keeps := false
	for _, d := range b.devices {
		keeps = keeps || d.reclaimable.Load() > 0
	}
	if keeps != b.notedReclaimable {
		b.options.Ledger.SetUnreclaimed(b.options.Slot, keeps)
		b.notedReclaimable = keeps
	}
}

// uncharge releases freed memory in the ledger, if it was charged.
func (m *Memory) uncharge(p piece) {
	if !p.mapping.foreign {
		m.release(p.Bytes)
	}
}

// MapHost makes host memory visible to kernels. It must be mapped at the same address in this
// process.
func (m *Memory) MapHost(address uint64, memory []byte) error {
	if addressOf(memory) != address {
		return gpu.Errorf("map host memory", abi.NotSupported,
			"it is mapped at %#x, but the program has it at %#x", addressOf(memory), address)
	}
	d := m.device
	m.context.backend.registering.Lock()
	defer m.context.backend.registering.Unlock()
	d.mu.Lock()
	defer d.mu.Unlock()
	host := d.hosts[address]
	if host == nil {
		p := piece{Range: gpu.Range{Address: address, Bytes: uint64(len(memory))}, host: memory}
		if !d.table.isFree(p.Range) {
			return gpu.Errorf("map host memory", abi.AlreadyMapped, "%#x", address)
		}
		if err := m.register(memory); err != nil {
			return err
		}
		d.table.add(p)
		host = &hostMapping{memory: memory, users: map[*Context]struct{}{}}
		d.hosts[address] = host
	}
	if _, ok := host.users[m.context]; ok || len(host.memory) != len(memory) {
		return gpu.Errorf("map host memory", abi.AlreadyMapped, "%#x", address)
	}
	host.users[m.context] = struct{}{}
	return nil
}

// register pins host memory and maps it for devices at its own address, if that was not done yet.
func (m *Memory) register(memory []byte) error {
	const op = "map host memory"
	c := m.context
	err := c.driver.HostRegister(c.native, memory)
	registered := errors.Is(err, abi.HostMemoryAlreadyRegistered)
	if failure := c.driverErr(op, err); failure != nil && !registered {
		if gpu.Code(err).Sticky() {
			return failure
		}
		return gpu.Errorf(op, gpu.Code(err),
			"the driver cannot pin %d bytes at %#x; newer kernels do not let devices write to files on disk, only on tmpfs",
			len(memory), addressOf(memory))
	}
	// If a device cannot use host pointers, the driver maps the memory at another address, where the
	// program's pointers would be invalid.
	at, err := c.driver.HostAddress(c.native, memory)
	if err == nil && at == addressOf(memory) {
		return nil
	}
	if !registered {
		_ = c.driver.HostUnregister(c.native, memory) // the first error is more useful
	}
	if err != nil {
		return c.driverErr(op, err)
	}
	return gpu.Errorf(op, abi.NotSupported,
		"the driver maps it for devices at %#x instead of %#x: a GPU here cannot use host pointers", at, addressOf(memory))
}

// UnmapHost reverses one MapHost of this context.
func (m *Memory) UnmapHost(address uint64) error {
	d := m.device
	m.context.backend.registering.Lock()
	defer m.context.backend.registering.Unlock()
	d.mu.Lock()
	defer d.mu.Unlock()
	host := d.hosts[address]
	if host == nil {
		return fmt.Errorf("unmap host memory at %#x: %w", address, abi.NotMapped)
	}
	if _, ok := host.users[m.context]; !ok {
		return fmt.Errorf("unmap host memory at %#x: %w", address, abi.NotMapped)
	}
	delete(host.users, m.context)
	if len(host.users) > 0 {
		return nil
	}
	delete(d.hosts, address)
	d.table.remove(address)
	if m.context.backend.mappedElsewhere(address, d) {
		return nil // the driver has one registration for all devices; the last device ends it
	}
	if err := d.driver.HostUnregister(m.context.native, host.memory); !errors.Is(err, abi.HostMemoryNotRegistered) {
		return m.context.driverErr("unmap host memory", err)
	}
	return nil
}

// mappedElsewhere reports whether another device maps host memory that begins at address.
// registering is held.
func (b *Backend) mappedElsewhere(address uint64, except *device) bool {
	for _, d := range b.devices {
		if d == except {
			continue
		}
		d.mu.Lock()
		shown := d.hosts[address] != nil
		d.mu.Unlock()
		if shown {
			return true
		}
	}
	return false
}

// registerAgain is called after a context ended. The driver may have dropped that context's
// registrations, so memory that other devices still map is registered again.
func (b *Backend) registerAgain(ended *Context) {
	b.registering.Lock()
	defer b.registering.Unlock()
	for _, d := range b.devices {
		contexts := b.contextsOf(d)
		if d == ended.device || len(contexts) == 0 {
			continue
		}
		d.mu.Lock()
		for _, mapping := range d.hosts {
			if err := contexts[0].memory.register(mapping.memory); err != nil {
				b.options.Logger.Error("cannot register host memory again",
					"gpu", d.ordinal, "address", addressOf(mapping.memory), "error", err)
			}
		}
		d.mu.Unlock()
	}
}

// reach returns how many of n bytes at address are mapped, and an error if not all are.
func (m *Memory) reach(op string, address int64, n int) (int, error) {
	if err := m.context.usable(op); err != nil {
		return 0, err
	}
	d := m.device
	d.mu.Lock()
	defer d.mu.Unlock()
	if have := int(d.table.covered(uint64(address), uint64(n))); have < n {
		return have, gpu.Errorf(op, abi.IllegalAddress, "%#x is not mapped", uint64(address)+uint64(have))
	}
	return n, nil
}

// ReadAt copies from device memory.
func (m *Memory) ReadAt(p []byte, address int64) (int, error) {
	n, short := m.reach("read memory", address, len(p))
	if n > 0 {
		var err error
		if n, err = m.context.copyOut(p[:n], uint64(address)); err != nil {
			short = err
		}
	}
	if short != nil && m.context.ended() {
		return 0, gpu.Errorf("read memory", abi.IllegalAddress, "the context was closed")
	}
	return n, short
}

// WriteAt copies to device memory.
func (m *Memory) WriteAt(p []byte, address int64) (int, error) {
	n, short := m.reach("write memory", address, len(p))
	if n == 0 {
		return 0, short
	}
	if n, err := m.context.copyIn(uint64(address), p[:n]); err != nil {
		return n, err
	}
	return n, short
}

// Usage returns the free and total bytes of the device, as reported by the driver. Unreclaimed
// memory counts as free, what is beyond the user's share does not.
func (m *Memory) Usage() (free, total uint64) {
	total = m.context.backend.infos[m.device.ordinal].MemoryBytes
	free, have, err := m.device.driver.MemGetInfo(m.context.native)
	if err != nil {
		_ = m.context.driverErr("ask for free memory", err)
		return 0, total
	}
	total = max(have, total)
	free = min(free+m.device.reclaimableBytes(), total)
	if o := m.context.backend.options; o.Ledger != nil {
		free = o.Ledger.Within(int(m.device.ordinal), o.Slot, free)
	}
	return free, total
}

// reclaimableBytes returns how much unreclaimed memory the device has, without memory shared with
// other processes.
func (d *device) reclaimableBytes() (bytes uint64) {
	if d.reclaimable.Load() == 0 {
		return 0
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, g := range d.mappings.all {
		if !g.foreign && !g.shared {
			bytes += g.Bytes - g.used
		}
	}
	return bytes
}

// zero fills a range with zeros and waits for it.
func (c *Context) zero(r gpu.Range) error {
	if err := c.driver.MemsetD8Async(c.native, r.Address, 0, r.Bytes, c.side); err != nil {
		return err
	}
	return c.driver.StreamSynchronize(c.native, c.side)
}

// releaseAll releases all memory that the context still has. Its work has ended.
func (m *Memory) releaseAll() error {
	errs := []error{m.changes.private.releaseAll(), m.removeAliases()}
	d := m.device
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, p := range slices.Clone(d.table.pieces) {
		switch {
		case p.owner != m.context:
		case p.mapping == nil:
			d.table.remove(p.Address) // a variable, unloaded with its module
		default:
			d.unassign(p)
			m.uncharge(p)
		}
	}
	for _, g := range slices.Clone(d.mappings.all) {
		if g.used == 0 {
			errs = append(errs, m.unmapMapping(g))
		}
	}
	return errors.Join(errs...)
}

// unmapAllHost unmaps all host memory of the context.
func (m *Memory) unmapAllHost() error {
	d := m.device
	d.mu.Lock()
	var mine []uint64
	for address, mapping := range d.hosts {
		if _, ok := mapping.users[m.context]; ok {
			mine = append(mine, address)
		}
	}
	d.mu.Unlock()
	var errs []error
	for _, address := range mine {
		errs = append(errs, m.UnmapHost(address))
	}
	return errors.Join(errs...)
}
