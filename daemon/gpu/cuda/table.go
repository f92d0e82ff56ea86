package cuda

import (
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/phos-gpu/phos/cgo/cudadrv"
	"github.com/phos-gpu/phos/daemon/gpu"
	"github.com/phos-gpu/phos/hijack/abi"
)

// piece is a mapped range of addresses.
type piece struct {
	gpu.Range
	// granule is the mapping that the piece is a part of; nil for host memory and variables of
	// modules.
	granule *granule
	owner   *Context
	host    []byte
}

// whole reports whether the piece is a whole mapping of the driver.
func (p *piece) whole() bool { return p.granule != nil && p.granule.Range == p.Range }

// table is all mapped ranges of a device, sorted by address. They do not overlap.
type table struct{ pieces []piece }

// at returns the index of the first piece that ends after an address.
func (t *table) at(address uint64) int {
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
	i := t.at(address)
	if i == len(t.pieces) || t.pieces[i].Address > address {
		return nil
	}
	return &t.pieces[i]
}

// free reports whether nothing in a range is mapped.
func (t *table) free(r gpu.Range) bool {
	i := t.at(r.Address)
	return i == len(t.pieces) || t.pieces[i].Address >= r.End()
}

// add adds a piece, unless it overlaps others.
func (t *table) add(p piece) {
	if t.free(p.Range) {
		t.pieces = slices.Insert(t.pieces, t.at(p.Address), p)
	}
}

// remove removes the piece that begins at an address, if any.
func (t *table) remove(address uint64) {
	if i := t.at(address); i < len(t.pieces) && t.pieces[i].Address == address {
		t.pieces = slices.Delete(t.pieces, i, i+1)
	}
}

// covered returns how many bytes from an address on, at most bytes, are mapped without a gap.
func (t *table) covered(address, bytes uint64) uint64 {
	at := address
	for i := t.at(address); i < len(t.pieces) && t.pieces[i].Address <= at && at-address < bytes; i++ {
		at = t.pieces[i].End()
	}
	return min(at-address, bytes)
}

// within returns the pieces that overlap a range.
func (t *table) within(r gpu.Range) []piece {
	from := t.at(r.Address)
	to := from
	for to < len(t.pieces) && t.pieces[to].Address < r.End() {
		to++
	}
	return t.pieces[from:to]
}

// granule is one mapping of the driver. The driver can only unmap it whole, and waits for all work
// first. So freed parts stay mapped until the device is idle, or until they are assigned again.
type granule struct {
	gpu.Range
	allocation cudadrv.Allocation
	// used is how many of its bytes are assigned, that is, in the table.
	used uint64
	// foreign is set for memory imported from another process, shared for memory exported to
	// others. Neither is assigned again.
	foreign, shared bool
}

// granules are all mappings of the driver on a device, by address.
type granules struct{ all []*granule }

func (x *granules) at(address uint64) int {
	i, _ := slices.BinarySearchFunc(x.all, address, func(g *granule, address uint64) int {
		if g.End() <= address {
			return -1
		}
		return 1
	})
	return i
}

func (x *granules) add(g *granule) { x.all = slices.Insert(x.all, x.at(g.Address), g) }

func (x *granules) remove(g *granule) {
	if i := x.at(g.Address); i < len(x.all) && x.all[i] == g {
		x.all = slices.Delete(x.all, i, i+1)
	}
}

// within returns the mappings that overlap a range.
func (x *granules) within(r gpu.Range) []*granule {
	from := x.at(r.Address)
	to := from
	for to < len(x.all) && x.all[to].Address < r.End() {
		to++
	}
	return slices.Clone(x.all[from:to])
}

// Kept returns how many bytes are mapped by the driver but not assigned.
func (m *Memory) Kept() uint64 { return uint64(max(m.device.kept.Load(), 0)) }

// Wanted reports whether another process has requested unreclaimed memory since the last Compact.
func (m *Memory) Wanted() bool {
	o := m.context.backend.options
	return o.Ledger != nil && o.Ledger.Shortages(int(m.device.ordinal)) != m.device.answered.Load()
}

// atOnce is how many mappings one GiveBack unmaps.
const atOnce = 16

// GiveBack unmaps mappings of which no part is used.
func (m *Memory) GiveBack() (done bool, err error) {
	d := m.device
	d.reading.Lock()
	defer d.reading.Unlock()
	d.mu.Lock()
	defer d.mu.Unlock()
	defer m.context.backend.tell()
	left := atOnce
	for _, g := range slices.Clone(d.granules.all) {
		if g.used > 0 {
			continue
		}
		if left == 0 {
			return false, nil
		}
		left--
		if err := m.drop(g); err != nil {
			return false, err
		}
	}
	return true, nil
}

// drop unmaps an unused mapping. The device's mu is held.
func (m *Memory) drop(g *granule) error {
	d := m.device
	if err := d.driver.Unmap(g.Address, g.Bytes); err != nil {
		return m.context.noted("unmap memory", err)
	}
	d.granules.remove(g)
	d.kept.Add(-int64(g.Bytes))
	return m.context.noted("unmap memory", d.driver.Release(g.allocation))
}

// Gathered reports whether a range is exactly one mapping.
func (m *Memory) Gathered(r gpu.Range) bool {
	d := m.device
	d.mu.Lock()
	defer d.mu.Unlock()
	p := d.table.find(r.Address)
	return p != nil && p.Range == r && p.whole()
}

// Gather moves a range to one new mapping. Each other piece of the old mappings gets a mapping of
// its own.
func (m *Memory) Gather(r gpu.Range) error {
	d := m.device
	d.reading.Lock()
	defer d.reading.Unlock()
	d.mu.Lock()
	defer d.mu.Unlock()
	if p := d.table.find(r.Address); p != nil && p.Range == r && p.whole() {
		return nil
	}
	move := &move{memory: m}
	for _, g := range d.granules.within(r) {
		move.from = append(move.from, g)
		for _, p := range d.table.within(g.Range) {
			if !r.Contains(p.Range) {
				move.to = append(move.to, p)
			}
		}
	}
	move.to = append(move.to, piece{Range: r, owner: m.context})
	return move.do()
}

// Compact moves the used parts of partly used mappings to new mappings, and unmaps the old ones.
func (m *Memory) Compact() error {
	d := m.device
	if o := m.context.backend.options; o.Ledger != nil {
		d.answered.Store(o.Ledger.Shortages(int(d.ordinal)))
	}
	d.reading.Lock()
	defer d.reading.Unlock()
	d.mu.Lock()
	defer d.mu.Unlock()
	defer m.context.backend.tell()
	for _, g := range slices.Clone(d.granules.all) {
		if g.used == 0 || g.used == g.Bytes || g.foreign || g.shared {
			continue
		}
		if err := (&move{m, []*granule{g}, slices.Clone(d.table.within(g.Range))}).do(); err != nil {
			return err
		}
	}
	return nil
}

// move moves the content of some mappings to new ones at the same addresses. The device's mu is
// held.
type move struct {
	memory *Memory
	from   []*granule
	to     []piece
}

func (x *move) do() error {
	d, c := x.memory.device, x.memory.context
	contents, made, err := x.prepare()
	if err != nil {
		return err
	}
	for _, g := range x.from {
		for _, p := range slices.Clone(d.table.within(g.Range)) {
			d.leave(p)
		}
		if err := x.memory.drop(g); err != nil {
			return x.lost(err)
		}
	}
	for i, p := range x.to {
		if err := d.show(p.Range, made[i], d.reached); err != nil {
			return x.lost(err)
		}
		g := &granule{Range: p.Range, allocation: made[i]}
		d.hold(g)
		d.use(p.Range, g, p.owner)
		if _, err := c.copyIn(p.Address, contents[i]); err != nil {
			return x.lost(err)
		}
	}
	return nil
}

// prepare allocates the new memory and copies the contents to the host. After that, few errors are
// possible.
func (x *move) prepare() (contents [][]byte, made []cudadrv.Allocation, err error) {
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
			return nil, nil, c.noted("move memory", err)
		}
	}
	return contents, made, nil
}

// lost handles errors that cannot be undone: the program must not go on without its memory.
func (x *move) lost(err error) error {
	err = fmt.Errorf("move memory: %w", err)
	x.memory.context.poison(err)
	return err
}

// aliases are the further addresses of memory, for all devices: the driver maps an alias once, and
// each device has its own access rights.
type aliases struct {
	mu sync.Mutex
	at map[uint64]*alias
}

type alias struct {
	gpu.Range
	home uint64
	// users are the contexts with access.
	users map[*Context]struct{}
}

// Alias maps the memory of one Map, or its beginning, at a further address.
func (m *Memory) Alias(address uint64, home gpu.Memory, r gpu.Range, write bool) error {
	const op = "map alias"
	from, own := home.(*Memory)
	if !own || address%gpu.ChunkBytes != 0 {
		return &gpu.Error{Op: op, Code: abi.InvalidValue, Detail: fmt.Sprintf("at %#x", address)}
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
		return &gpu.Error{Op: op, Code: abi.AlreadyMapped, Detail: fmt.Sprintf("%#x", address)}
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
		return m.context.noted(op, err)
	}
	if x.at == nil {
		x.at = map[uint64]*alias{}
	}
	x.at[address] = a
	if _, seen := a.users[m.context]; !seen {
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
		free := d.table.free(a.Range)
		d.mu.Unlock()
		if !free {
			return nil, &gpu.Error{Op: op, Code: abi.AlreadyMapped, Detail: fmt.Sprintf("%#x", address)}
		}
	}
	from.device.mu.Lock()
	defer from.device.mu.Unlock()
	p := from.device.table.find(r.Address)
	if p == nil || !p.whole() || p.Address != r.Address || r.Bytes > p.Bytes || r.Bytes == 0 {
		return nil, &gpu.Error{
			Op:     op,
			Code:   abi.InvalidValue,
			Detail: fmt.Sprintf("%#x+%#x is not one mapping, or its beginning", r.Address, r.Bytes),
		}
	}
	return a, m.context.noted(op, m.device.driver.Map(address, r.Bytes, p.granule.allocation))
}

// Unalias removes an alias from this context.
func (m *Memory) Unalias(address uint64) error {
	x := &m.context.backend.aliases
	x.mu.Lock()
	defer x.mu.Unlock()
	a := x.at[address]
	if a == nil {
		return &gpu.Error{Op: "unmap alias", Code: abi.NotMapped, Detail: fmt.Sprintf("%#x", address)}
	}
	return m.hide(a)
}

// hide removes this context's access to an alias, and unmaps the alias after its last user. The
// aliases' mu is held.
func (m *Memory) hide(a *alias) error {
	if _, seen := a.users[m.context]; !seen {
		return &gpu.Error{Op: "unmap alias", Code: abi.NotMapped, Detail: fmt.Sprintf("%#x", a.Address)}
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
		return m.context.noted("unmap alias", d.driver.Unmap(a.Address, a.Bytes))
	}
	return m.context.noted("unmap alias", d.driver.Grant(a.Address, a.Bytes, d.ordinal, cudadrv.AccessNone))
}

// hideAliases removes all aliases of the context, before it releases its memory.
func (m *Memory) hideAliases() error {
	x := &m.context.backend.aliases
	x.mu.Lock()
	defer x.mu.Unlock()
	var errs []error
	for _, a := range x.at {
		if _, seen := a.users[m.context]; seen {
			errs = append(errs, m.hide(a))
		}
	}
	return errors.Join(errs...)
}
