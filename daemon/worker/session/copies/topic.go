package copies

import (
	"github.com/phos-gpu/phos/daemon/worker/session/core"
	"github.com/phos-gpu/phos/daemon/worker/session/memory"
	"github.com/phos-gpu/phos/daemon/worker/session/object"
	"github.com/phos-gpu/phos/daemon/worker/session/saved"
)

// Copies handles the calls that copy and fill memory. It has no objects.
type Copies struct {
	*core.Core
	memory  *memory.Memory
	scratch []byte // for small copies
}

// New returns the topic of a session.
func New(c *core.Core, m *memory.Memory) *Copies { return &Copies{Core: c, memory: m} }

// Save has nothing to write.
func (s *Copies) Save(*core.Encoder) {}

// Restore returns nil: all objects are those of other topics.
func (s *Copies) Restore(*core.Decoder, *object.Object, saved.State) (core.State, error) {
	return nil, nil
}

// Release has nothing to free.
func (s *Copies) Release(*object.Object) {}
