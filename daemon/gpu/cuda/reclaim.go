package cuda

import (
	"fmt"
	"slices"

	"github.com/phos-gpu/phos/cgo/cudadrv"
	"github.com/phos-gpu/phos/daemon/gpu"
)

// Reclaimable returns how many bytes are mapped by the driver but not assigned.
func (m *Memory) Reclaimable() uint64 { return uint64(max(m.device.reclaimable.Load(), 0)) }

// ReclaimRequested reports whether another process has requested unreclaimed memory since the last
// Compact.
func (m *Memory) ReclaimRequested() bool {
	o := m.context.backend.options
	return o.Ledger != nil && o.Ledger.ReclaimRequests(int(m.device.ordinal)) != m.device.requestsSeen.Load()
}

// maxReclaims is how many mappings one Reclaim unmaps.
const maxReclaims = 16

// Reclaim unmaps mappings of which no part is used.
func (m *Memory) Reclaim() (done bool, err error) {
	d := m.device
	d.reading.Lock()
	defer d.reading.Unlock()
	d.mu.Lock()
	defer d.mu.Unlock()
	defer m.context.backend.updateLedger()
	left := maxReclaims
	for _, g := range slices.Clone(d.mappings.all) {
		if g.used > 0 {
			continue
		}
		if left == 0 {
			return false, nil
		}
		left--
		if err := m.unmapMapping(g); err != nil {
			return false, err
		}
	}
	return true, nil
}

// unmapMapping unmaps an unused mapping. The device's mu is held.
func (m *Memory) unmapMapping(g *mapping) error {
	d := m.device
	if err := d.driver.Unmap(g.Address, g.Bytes); err != nil {
		return m.context.driverErr("unmap memory", err)
	}
	d.mappings.remove(g)
	d.reclaimable.Add(-int64(g.Bytes))
	return m.context.driverErr("unmap memory", d.driver.Release(g.allocation))
}

// Consolidated reports whether a range is exactly one mapping.
func (m *Memory) Consolidated(r gpu.Range) bool {
	d := m.device
	d.mu.Lock()
	defer d.mu.Unlock()
	p := d.table.find(r.Address)
	return p != nil && p.Range == r && p.whole()
}

// Consolidate moves a range to one new mapping. Each other piece of the old mappings gets a mapping
// of its own.
func (m *Memory) Consolidate(r gpu.Range) error {
	d := m.device
	d.reading.Lock()
	defer d.reading.Unlock()
	d.mu.Lock()
	defer d.mu.Unlock()
	if p := d.table.find(r.Address); p != nil && p.Range == r && p.whole() {
		return nil
	}
	move := &relocation{memory: m}
	for _, g := range d.mappings.overlapping(r) {
		move.from = append(move.from, g)
		for _, p := range d.table.overlapping(g.Range) {
			if !r.Contains(p.Range) {
				move.to = append(move.to, p)
			}
		}
	}
	move.to = append(move.to, piece{Range: r, owner: m.context})
	return move.run()
}

// Compact moves the used parts of partly used mappings to new mappings, and unmaps the old ones.
func (m *Memory) Compact() error {
	d := m.device
	if o := m.context.backend.options; o.Ledger != nil {
		d.requestsSeen.Store(o.Ledger.ReclaimRequests(int(d.ordinal)))
	}
	d.reading.Lock()
	defer d.reading.Unlock()
	d.mu.Lock()
	defer d.mu.Unlock()
	defer m.context.backend.updateLedger()
	for _, g := range slices.Clone(d.mappings.all) {
		if g.used == 0 || g.used == g.Bytes || g.foreign || g.shared {
			continue
		}
		if err := (&relocation{m, []*mapping{g}, slices.Clone(d.table.overlapping(g.Range))}).run(); err != nil {
			return err
		}
	}
	return nil
}

// relocation moves the content of some mappings to new ones at the same addresses. The device's mu
// is held.
type relocation struct {
	memory *Memory
	from   []*mapping
	to     []piece
}

// run moves the content. After an error that cannot be undone, the context is poisoned.
func (x *relocation) run() error {
	d, c := x.memory.device, x.memory.context
	contents, made, err := x.prepare()
	if err != nil {
		return err
	}
	for _, g := range x.from {
		for _, p := range slices.Clone(d.table.overlapping(g.Range)) {
			d.unassign(p)
		}
		if err := x.memory.unmapMapping(g); err != nil {
			return x.fail(err)
		}
	}
	for i, p := range x.to {
		if err := d.mapFor(p.Range, made[i], d.accessors); err != nil {
			return x.fail(err)
		}
		g := &mapping{Range: p.Range, allocation: made[i]}
		d.addMapping(g)
		d.assign(p.Range, g, p.owner)
		if _, err := c.copyIn(p.Address, contents[i]); err != nil {
			return x.fail(err)
		}
	}
	return nil
}

// prepare allocates the new memory and copies the contents to the host. After that, few errors are
// possible.
func (x *relocation) prepare() (contents [][]byte, made []cudadrv.Allocation, err error) {
	d, c := x.memory.device, x.memory.context
	for _, p := range x.to {
		allocation, err := d.create(p.Bytes)
		if err == nil {
			made, contents = append(made, allocation), append(contents, make([]byte, p.Bytes))
			_, err = c.copyOut(contents[len(made)-1], p.Address)
		}
		if err != nil {
			for _, allocation := range made {
				_ = d.driver.Release(allocation) // the first error is more useful
			}
			return nil, nil, c.driverErr("move memory", err)
		}
	}
	return contents, made, nil
}

// fail handles errors that cannot be undone: the program must not go on without its memory.
func (x *relocation) fail(err error) error {
	err = fmt.Errorf("move memory: %w", err)
	x.memory.context.poison(err)
	return err
}
