package code

import (
	"fmt"
	"maps"
	"slices"

	"github.com/phos-gpu/phos/daemon/worker/session/core"
	"github.com/phos-gpu/phos/daemon/worker/session/saved"
	"github.com/phos-gpu/phos/hijack/abi"
)

// addPlaced enters a module's variables as far as they lie outside.
func (s *Code) addPlaced(m *Module) {
	for _, name := range slices.Sorted(maps.Keys(m.code.Globals())) {
		r := m.code.Globals()[name]
		if s.memory.AddVariable(m.context.Device, r) {
			m.placed = append(m.placed, variable{name: name, bounds: r})
		}
	}
}

// removePlaced takes a module's variables out.
func (s *Code) removePlaced(m *Module) {
	for _, v := range m.placed {
		s.memory.RemoveVariable(v.bounds.Address)
	}
}

// savePlaced writes down what such variables hold: they are no part of the memory that a checkpoint
// copies.
func (m *Module) savePlaced(e *core.Encoder) []saved.Placed {
	var out []saved.Placed
	d := m.context.Device
	for _, v := range m.placed {
		content := make([]byte, v.bounds.Bytes)
		if d.GPU.Fault() == nil {
			if _, err := d.GPU.Memory().ReadAt(content, int64(v.bounds.Address)); err != nil {
				e.Fail(err)
			}
		}
		out = append(out, saved.Placed{Name: v.name, Address: v.bounds.Address, Content: content})
	}
	return out
}

// restorePlaced gives variables their content back, if the driver has put them where they were: the
// program may know their addresses.
func (s *Code) restorePlaced(m *Module, in []saved.Placed) error {
	s.addPlaced(m)
	now := m.code.Globals()
	for _, v := range in {
		at, found := now[v.Name]
		if !found || at.Bytes != uint64(len(v.Content)) {
			return core.Damaged("its code has no variable %s of %d bytes", v.Name, len(v.Content))
		}
		if at.Address != v.Address {
			return &MovedError{Name: v.Name, Was: v.Address, Now: at.Address}
		}
		if _, err := m.context.Device.GPU.Memory().WriteAt(v.Content, int64(v.Address)); err != nil {
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
