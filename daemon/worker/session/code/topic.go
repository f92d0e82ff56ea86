package code

import (
	"github.com/phos-gpu/phos/daemon/worker/session/core"
	"github.com/phos-gpu/phos/daemon/worker/session/memory"
	"github.com/phos-gpu/phos/daemon/worker/session/object"
	"github.com/phos-gpu/phos/daemon/worker/session/reclaim"
	"github.com/phos-gpu/phos/daemon/worker/session/saved"
	"github.com/phos-gpu/phos/hijack/abi"
)

// Code handles the calls about modules, libraries and kernels.
type Code struct {
	*core.Core
	// Unloading is called before a module is unloaded.
	Unloading func(m *Module)

	memory  *memory.Memory
	reclaim *reclaim.Reclaimer
	recent  recent
	loads   []*loads // by the ordinal of the device
	// reloaded is code that a restore has loaded before anything else, by the handles of its modules.
	reloaded map[abi.Handle]*Module
}

// New returns the topic of a session.
func New(c *core.Core, m *memory.Memory, r *reclaim.Reclaimer) *Code {
	return &Code{Core: c, memory: m, reclaim: r, loads: make([]*loads, len(c.Devices))}
}

// Save writes what is beside the objects.
func (s *Code) Save(e *core.Encoder) {
	for i := range s.Devices {
		if s.Devices[i].GPU != nil {
			e.Out.Devices[i].Loads = s.loads[i].Save(e)
		}
	}
}

// Restore makes the state of an object, nil for an object of another topic.
func (s *Code) Restore(r *core.Decoder, o *object.Object, in saved.State) (core.State, error) {
	switch in := in.(type) {
	case *saved.Module:
		return s.restoreModule(r, o, in)
	case *saved.Function:
		return s.restoreFunction(r, o, in)
	case *saved.Library:
		return s.restoreLibrary(r, o, in)
	case *saved.Kernel:
		return s.restoreKernel(o, in)
	}
	return nil, nil
}

// Release frees what an object held when it is destroyed, by itself or with its parent.
func (s *Code) Release(o *object.Object) {
	if m, ok := o.State.(*Module); ok {
		s.Unloading(m)
		m.close(s)
	}
}
