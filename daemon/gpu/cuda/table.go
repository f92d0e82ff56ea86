package cuda

import (
	"errors"
	"slices"
	"sync"

	"github.com/phos-gpu/phos/cgo/cudadrv"
	"github.com/phos-gpu/phos/daemon/gpu"
	"github.com/phos-gpu/phos/hijack/abi"
)

// piece is a mapped range of addresses.
type piece struct {
	gpu.Range
	// mapping is the mapping that the piece is a part of; nil for host memory and variables of
	// modules.
	mapping *mapping
	owner   *Context
	host    []byte
}

// whole reports whether the piece is a whole mapping of the driver.
func (p *piece) whole() bool { return p.mapping != nil && p.mapping.Range == p.Range }

// table is all mapped ranges of a device, sorted by address. They do not overlap.
type table struct{ pieces []piece }

// index returns the index of the first piece that ends after an address.
func (t *table) index(address uint64) int {
	i, _ := slices.BinarySearchFunc(t.pieces, address, func(p piece, address uint64) int {
		if p.End() <= address {
			return -1
		}
		return 1
	})
	return i
}

// find returns the piece that contains an address, or nil.
func (t *table) find(address uint64) *piece {
	i := t.index(address)
	if i == len(t.pieces) || t.pieces[i].Address > address {
		return nil
	}
	return &t.pieces[i]
}

// isFree reports whether nothing in a range is mapped.
func (t *table) isFree(r gpu.Range) bool {
	i := t.index(r.Address)
	return i == len(t.pieces) || t.pieces[i].Address >= r.End()
}

// add adds a piece, unless it overlaps others.
func (t *table) add(p piece) {
	if t.isFree(p.Range) {
		t.pieces = slices.Insert(t.pieces, t.index(p.Address), p)
	}
}

// remove removes the piece that begins at an address, if any.
func (t *table) remove(address uint64) {
	if i := t.index(address); i < len(t.pieces) && t.pieces[i].Address == address {
		t.pieces = slices.Delete(t.pieces, i, i+1)
	}
}

// covered returns how many bytes from an address on, at most bytes, are mapped without a gap.
func (t *table) covered(address, bytes uint64) uint64 {
	at := address
	for i := t.index(address); i < len(t.pieces) && t.pieces[i].Address <= at && at-address < bytes; i++ {
		at = t.pieces[i].End()
	}
	return min(at-address, bytes)
}

// overlapping returns the pieces that overlap a range.
func (t *table) overlapping(r gpu.Range) []piece {
	from := t.index(r.Address)
	to := from
	for to < len(t.pieces) && t.pieces[to].Address < r.End() {
		to++
	}
	return t.pieces[from:to]
}

// mapping is one mapping of the driver. The driver can only unmap it whole, and waits for all work
// first. So freed parts stay mapped until the device is idle, or until they are assigned again.
type mapping struct {
	gpu.Range
	allocation cudadrv.Allocation
	// used is how many of its bytes are assigned, that is, in the table.
	used uint64
	// foreign is set for memory imported from another process, shared for memory exported to
	// others. Neither is assigned again.
	foreign, shared bool
}

// mappings are all mappings of the driver on a device, by address.
type mappings struct{ all []*mapping }

// index returns the index of the first mapping that ends after an address.
func (x *mappings) index(address uint64) int {
	i, _ := slices.BinarySearchFunc(x.all, address, func(g *mapping, address uint64) int {
		if g.End() <= address {
			return -1
		}
		return 1
	})
	return i
}

func (x *mappings) add(g *mapping) { x.all = slices.Insert(x.all, x.index(g.Address), g) }

func (x *mappings) remove(g *mapping) {
	if i := x.index(g.Address); i < len(x.all) && x.all[i] == g {
		x.all = slices.Delete(x.all, i, i+1)
	}
}

// overlapping returns the mappings that overlap a range.
func (x *mappings) overlapping(r gpu.Range) []*mapping {
	from := x.index(r.Address)
	to := from
	for to < len(x.all) && x.all[to].Address < r.End() {
		to++
	}
	return slices.Clone(x.all[from:to])
}

// aliases are the further addresses of memory, for all devices: the driver maps an alias once, and
// each device has its own access rights.
type aliases struct {
	mu sync.Mutex
	at map[uint64]*alias
}

// alias is a further address of the memory at home.
type alias struct {
	gpu.Range
	home uint64
	// users are the contexts with access.
	users map[*Context]struct{}
}

// Alias maps the memory of one Map, or its beginning, at a further address.
func (m *Memory) Alias(address uint64, home gpu.Memory, r gpu.Range, write bool) error {
	const op = "map alias"
	from, ok := home.(*Memory)
	if !ok || address%gpu.ChunkBytes != 0 {
		return gpu.Errorf(op, abi.InvalidValue, "at %#x", address)
	}
	x := &m.context.backend.aliases
	x.mu.Lock()
	defer x.mu.Unlock()
	a := x.at[address]
	fresh := a == nil
	if fresh {
		var err error
		if a, err = m.newAlias(address, from, r); err != nil {
			return err
		}
	} else if a.home != r.Address || a.Bytes != r.Bytes {
		return gpu.Errorf(op, abi.AlreadyMapped, "%#x", address)
	}
	access := cudadrv.AccessRead
	if write {
		access = cudadrv.AccessReadWrite
	}
	err := m.device.driver.Grant(address, r.Bytes, m.device.ordinal, access)
	if err != nil {
		if fresh {
			err = errors.Join(err, m.device.driver.Unmap(address, r.Bytes))
		}
		return m.context.driverErr(op, err)
	}
	if x.at == nil {
		x.at = map[uint64]*alias{}
	}
	x.at[address] = a
	if _, ok := a.users[m.context]; !ok {
		a.users[m.context] = struct{}{}
		m.device.mu.Lock()
		m.device.table.add(piece{Range: a.Range, owner: m.context})
		m.device.mu.Unlock()
	}
	return nil
}

// newAlias maps memory at a free address, without access rights yet.
func (m *Memory) newAlias(address uint64, from *Memory, r gpu.Range) (*alias, error) {
	const op = "map alias"
	a := &alias{Range: gpu.Range{Address: address, Bytes: r.Bytes}, home: r.Address, users: map[*Context]struct{}{}}
	for _, d := range m.context.backend.devices {
		d.mu.Lock()
		free := d.table.isFree(a.Range)
		d.mu.Unlock()
		if !free {
			return nil, gpu.Errorf(op, abi.AlreadyMapped, "%#x", address)
		}
	}
	from.device.mu.Lock()
	defer from.device.mu.Unlock()
	p := from.device.table.find(r.Address)
	if p == nil || !p.whole() || p.Address != r.Address || r.Bytes > p.Bytes || r.Bytes == 0 {
		return nil, gpu.Errorf(op, abi.InvalidValue, "%#x+%#x is not one mapping, or its beginning", r.Address, r.Bytes)
	}
	return a, m.context.driverErr(op, m.device.driver.Map(address, r.Bytes, p.mapping.allocation))
}

// Unalias removes an alias from this context.
func (m *Memory) Unalias(address uint64) error {
	x := &m.context.backend.aliases
	x.mu.Lock()
	defer x.mu.Unlock()
	a := x.at[address]
	if a == nil {
		return gpu.Errorf("unmap alias", abi.NotMapped, "%#x", address)
	}
	return m.removeAlias(a)
}

// removeAlias removes this context's access to an alias, and unmaps the alias after its last user.
// The aliases' mu is held.
func (m *Memory) removeAlias(a *alias) error {
	if _, ok := a.users[m.context]; !ok {
		return gpu.Errorf("unmap alias", abi.NotMapped, "%#x", a.Address)
	}
	d := m.device
	d.reading.Lock()
	defer d.reading.Unlock()
	delete(a.users, m.context)
	d.mu.Lock()
	d.table.remove(a.Address)
	d.mu.Unlock()
	if len(a.users) == 0 {
		delete(m.context.backend.aliases.at, a.Address)
		return m.context.driverErr("unmap alias", d.driver.Unmap(a.Address, a.Bytes))
	}
	return m.context.driverErr("unmap alias", d.driver.Grant(a.Address, a.Bytes, d.ordinal, cudadrv.AccessNone))
}

// removeAliases removes all aliases of the context, before it releases its memory.
func (m *Memory) removeAliases() error {
	x := &m.context.backend.aliases
	x.mu.Lock()
	defer x.mu.Unlock()
	var errs []error
	for _, a := range x.at {
		if _, ok := a.users[m.context]; ok {
			errs = append(errs, m.removeAlias(a))
		}
	}
	return errors.Join(errs...)
}
