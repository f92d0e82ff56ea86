package saved

import (
	"github.com/phos-gpu/phos/daemon/worker/ipc"
	"github.com/phos-gpu/phos/hijack/abi"
)

// Memory is an allocation, in a GPU's window or in the arena.
type Memory struct {
	Bytes uint64
	// Pool is the pool that it came from; 0 for none or a destroyed one.
	Pool abi.Handle
	// Managed is set if memory in the arena is managed, not only pinned.
	Managed bool
	// Export is the key under which it is exported; zero for none.
	Export ipc.ID
}

// code codes an allocation; Export since version 3.
func (m *Memory) code(c *coder) {
	number(c, &m.Bytes)
	number(c, &m.Pool)
	c.boolean(&m.Managed)
	if c.version >= 3 {
		codeID(c, &m.Export)
	}
}

// Registered is the program's own memory, at its address, that is registered for kernels.
type Registered struct{ Bytes uint64 }

func (r *Registered) code(c *coder) { number(c, &r.Bytes) }

// Pool is a memory pool.
type Pool struct {
	Device   int32
	MaxBytes uint64
	// Reuse holds the reuse policies, attributes 1 to 3.
	Reuse                 [3]bool
	Threshold, Used, High uint64
}

// code codes a pool and its attributes.
func (p *Pool) code(c *coder) {
	number(c, &p.Device)
	number(c, &p.MaxBytes)
	for i := range p.Reuse {
		c.boolean(&p.Reuse[i])
	}
	number(c, &p.Threshold)
	number(c, &p.Used)
	number(c, &p.High)
}
