package memory

import (
	"cmp"
	"slices"
	"sync"

	"github.com/phos-gpu/phos/daemon/gpu"
	"github.com/phos-gpu/phos/daemon/worker/session/core"
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
	device *core.Device
}

func (p *placements) find(address uint64) (int, bool) {
	return slices.BinarySearchFunc(
		p.ranges,
		address,
		func(r placedRange, address uint64) int { return cmp.Compare(r.Address, address) },
	)
}

// add enters a variable.
func (p *placements) add(d *core.Device, r gpu.Range) {
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
func (s *Memory) inWindow(address uint64) bool {
	return slices.ContainsFunc(
		s.Devices,
		func(d *core.Device) bool { return d.Window.Contains(gpu.Range{Address: address, Bytes: 1}) },
	)
}

// AddVariable enters a variable of a module. It reports false for a variable whose place the
// session has chosen: that one lies in a window or in the arena.
func (s *Memory) AddVariable(d *core.Device, r gpu.Range) bool {
	if r.Bytes == 0 || s.inWindow(r.Address) || s.inArena(r) {
		return false
	}
	s.placed.add(d, r)
	return true
}

// RemoveVariable takes out what AddVariable has entered.
func (s *Memory) RemoveVariable(address uint64) { s.placed.remove(address) }
