package session

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/phos-gpu/phos/daemon/gpu"
	"github.com/phos-gpu/phos/daemon/worker/session/saved"
	"github.com/phos-gpu/phos/hijack/abi"
)

// placements are variables of modules where the backend has put them: the driver of a real GPU
// chooses their addresses, outside of all windows. It has a lock of its own, as modules are loaded
// and unloaded without the session's.
type placements struct {
	mu     sync.Mutex
	ranges []placedRange // by address
}

type placedRange struct {
	gpu.Range
	device *device
}

// addPlaced enters a module's variables as far as they lie outside.
func (s *Session) addPlaced(m *module) {
	for _, name := range slices.Sorted(maps.Keys(m.code.Globals())) {
		r := m.code.Globals()[name]
		if s.inWindow(r.Address) || s.inArena(r) || r.Bytes == 0 {
			continue
		}
		m.placed = append(m.placed, variable{name: name, bounds: r})
		s.placed.add(m.context.device, r)
	}
}

func (p *placements) find(address uint64) (int, bool) {
	return slices.BinarySearchFunc(
		p.ranges,
		address,
		func(r placedRange, address uint64) int { return cmp.Compare(r.Address, address) },
	)
}

// add enters a variable.
func (p *placements) add(d *device, r gpu.Range) {
	p.mu.Lock()
	defer p.mu.Unlock()
	at, _ := p.find(r.Address)
	p.ranges = slices.Insert(p.ranges, at, placedRange{r, d})
}

// remove takes a variable out.
func (p *placements) remove(address uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if at, found := p.find(address); found {
		p.ranges = slices.Delete(p.ranges, at, at+1)
	}
}

// removePlaced takes a module's variables out.
func (s *Session) removePlaced(m *module) {
	for _, v := range m.placed {
		s.placed.remove(v.bounds.Address)
	}
}

// at is the variable that an address lies in, and whether there is one.
func (p *placements) at(address uint64) (placedRange, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	at, exact := p.find(address)
	if !exact {
		at--
	}
	if at < 0 || address >= p.ranges[at].End() {
		return placedRange{}, false
	}
	return p.ranges[at], true
}

// inWindow reports whether an address lies in the window of a device.
func (s *Session) inWindow(address uint64) bool {
	return slices.ContainsFunc(
		s.devices,
		func(d *device) bool { return d.window.Contains(gpu.Range{Address: address, Bytes: 1}) },
	)
}

// savePlaced writes down what such variables hold: they are no part of the memory that a checkpoint
// copies.
func (m *module) savePlaced(k *saving) []saved.Placed {
	var out []saved.Placed
	d := m.context.device
	for _, v := range m.placed {
		content := make([]byte, v.bounds.Bytes)
		if d.context.Fault() == nil {
			if _, err := d.context.Memory().ReadAt(content, int64(v.bounds.Address)); err != nil {
				k.fail(err)
			}
		}
		out = append(out, saved.Placed{Name: v.name, Address: v.bounds.Address, Content: content})
	}
	return out
}

// restorePlaced gives variables their content back, if the driver has put them where they were: the
// program may know their addresses.
func (s *Session) restorePlaced(r *restoring, m *module, in []saved.Placed) error {
	s.addPlaced(m)
	now := m.code.Globals()
	for _, v := range in {
		at, found := now[v.Name]
		if !found || at.Bytes != uint64(len(v.Content)) {
			return damaged("its code has no variable %s of %d bytes", v.Name, len(v.Content))
		}
		if at.Address != v.Address {
			return &MovedError{Name: v.Name, Was: v.Address, Now: at.Address}
		}
		if _, err := m.context.device.context.Memory().WriteAt(v.Content, int64(v.Address)); err != nil {
			return err
		}
	}
	return nil
}

// MovedError means that a driver has put a variable of the program's code at another address than
// before.
type MovedError struct {
	Name     string
	Was, Now uint64
}

func (e *MovedError) Error() string {
	return fmt.Sprintf("the GPU driver has put variable %s at %#x; it was at %#x, which the program may remember: "+
		"try again, or restore it by the driver and on the kind of GPU that it had", e.Name, e.Now, e.Was)
}

// Unwrap makes it a code of the driver's.
func (e *MovedError) Unwrap() error { return abi.NotSupported }
