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

// piece is a range of addresses with something behind it.
type piece struct {
	gpu.Range
	// allocation is zero for what is no memory of Map's: host memory, variables of modules.
	allocation cudadrv.Allocation
	owner      *Context
	host       []byte
	// foreign is memory that another process has made, shared what other processes can have of this one's.
	foreign, shared bool
}

// table is all that lies somewhere on a device, by address. Ranges do not overlap.
type table struct{ pieces []piece }

// at returns the index of the first piece that ends behind an address.
func (t *table) at(address uint64) int {
	i, _ := slices.BinarySearchFunc(t.pieces, address, func(p piece, address uint64) int {
		if p.End() <= address {
			return -1
		}
		return 1
	})
	return i
}

// find returns the piece that an address lies in, nil where there is none.
func (t *table) find(address uint64) *piece {
	i := t.at(address)
	if i == len(t.pieces) || t.pieces[i].Address > address {
		return nil
	}
	return &t.pieces[i]
}

// free reports whether nothing lies in a range.
func (t *table) free(r gpu.Range) bool {
	i := t.at(r.Address)
	return i == len(t.pieces) || t.pieces[i].Address >= r.End()
}

// add puts a piece into a range, if it is free.
func (t *table) add(p piece) {
	if t.free(p.Range) {
		t.pieces = slices.Insert(t.pieces, t.at(p.Address), p)
	}
}

// remove takes a piece out by its first address, if there is one.
func (t *table) remove(address uint64) {
	if i := t.at(address); i < len(t.pieces) && t.pieces[i].Address == address {
		t.pieces = slices.Delete(t.pieces, i, i+1)
	}
}

// covered is how many bytes from an address on, at most so many, have something behind them without a gap.
func (t *table) covered(address, bytes uint64) uint64 {
	at := address
	for i := t.at(address); i < len(t.pieces) && t.pieces[i].Address <= at && at-address < bytes; i++ {
		at = t.pieces[i].End()
	}
	return min(at-address, bytes)
}

// within lists the pieces that overlap a range.
func (t *table) within(r gpu.Range) []piece {
	from := t.at(r.Address)
	to := from
	for to < len(t.pieces) && t.pieces[to].Address < r.End() {
		to++
	}
	return t.pieces[from:to]
}

// aliases are the further addresses at which memory is shown, in all devices together: the driver maps once, and each
// device has rights of its own.
type aliases struct {
	mu sync.Mutex
	at map[uint64]*alias
}

type alias struct {
	gpu.Range
	home uint64
	// users are the contexts that see it.
	users map[*Context]struct{}
}

// Alias shows the memory of one Map, or its beginning, at a further address.
func (m *Memory) Alias(address uint64, home gpu.Memory, r gpu.Range, write bool) error {
	const op = "show memory"
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

// newAlias maps memory at an address where nothing is. Nobody may touch it yet.
func (m *Memory) newAlias(address uint64, from *Memory, r gpu.Range) (*alias, error) {
	const op = "show memory"
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
	if p == nil || p.allocation == 0 || p.Address != r.Address || r.Bytes > p.Bytes || r.Bytes == 0 {
		return nil, &gpu.Error{Op: op, Code: abi.InvalidValue, Detail: fmt.Sprintf("%#x+%#x is not what was mapped at once", r.Address, r.Bytes)}
	}
	return a, m.context.noted(op, m.device.driver.Map(address, r.Bytes, p.allocation))
}

// Unalias takes one Alias back.
func (m *Memory) Unalias(address uint64) error {
	x := &m.context.backend.aliases
	x.mu.Lock()
	defer x.mu.Unlock()
	a := x.at[address]
	if a == nil {
		return &gpu.Error{Op: "hide memory", Code: abi.NotMapped, Detail: fmt.Sprintf("%#x", address)}
	}
	return m.hide(a)
}

// hide ends what this context sees of an alias, and the alias with the last one. The aliases' mu is held.
func (m *Memory) hide(a *alias) error {
	if _, seen := a.users[m.context]; !seen {
		return &gpu.Error{Op: "hide memory", Code: abi.NotMapped, Detail: fmt.Sprintf("%#x", a.Address)}
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
		return m.context.noted("hide memory", d.driver.Unmap(a.Address, a.Bytes))
	}
	return m.context.noted("hide memory", d.driver.Grant(a.Address, a.Bytes, d.ordinal, cudadrv.AccessNone))
}

// hideAliases comes before a context gives its memory back.
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
