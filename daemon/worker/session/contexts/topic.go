package contexts

import (
	"github.com/phos-gpu/phos/daemon/worker/session/core"
	"github.com/phos-gpu/phos/daemon/worker/session/memory"
	"github.com/phos-gpu/phos/daemon/worker/session/reclaim"
)

// Contexts handles the calls about contexts, and what these may do with memory of other GPUs.
type Contexts struct {
	*core.Core
	memory    *memory.Memory
	reclaim   *reclaim.Reclaimer
	primaries []primary // by the ordinal of the device
}

// New returns the topic of a session.
func New(c *core.Core, m *memory.Memory, r *reclaim.Reclaimer) *Contexts {
	return &Contexts{Core: c, memory: m, reclaim: r, primaries: make([]primary, len(c.Devices))}
}
