package memory

import (
	"github.com/phos-gpu/phos/daemon/gpu"
	"github.com/phos-gpu/phos/daemon/worker/session/core"
	"github.com/phos-gpu/phos/daemon/worker/session/heap"
	"github.com/phos-gpu/phos/daemon/worker/session/reclaim"
	"github.com/phos-gpu/phos/daemon/worker/session/virtual"
)

// Memory handles the calls about memory, and opens and closes the devices that it lies on.
type Memory struct {
	*core.Core
	// Loader is set before the first device is opened.
	Loader Loader

	reclaim *reclaim.Reclaimer
	arena   *heap.Arena // has a lock of its own
	placed  placements
	host    hostMappings
	pools   []devicePools // by the ordinal of the device
	virtual *virtual.Space
	imports []*imported
	closing map[*core.Device]bool // waits for idle GPUs
	// live is what a restore finds allocated on each device, by address.
	live map[*core.Device][]gpu.Range
}

// New returns the topic of a session.
func New(c *core.Core, r *reclaim.Reclaimer) *Memory {
	s := &Memory{Core: c, reclaim: r, pools: make([]devicePools, len(c.Devices)), closing: map[*core.Device]bool{}}
	arena := c.Options.Arena
	s.arena = heap.NewArena(gpu.Range{Address: arena.Address(), Bytes: uint64(len(arena.Bytes()))}, arena)
	s.host = hostMappings{core: c, arena: s.arena, reclaim: r}
	s.newSpace()
	return s
}

// AddDefaultPools gives the devices of a new session the pools that they have from the first.
func (s *Memory) AddDefaultPools() {
	for _, d := range s.Devices {
		s.addDefaultPool(d)
	}
}

// Close ends the use of memory of the program. All devices are closed.
func (s *Memory) Close() {
	s.host.end()
}
