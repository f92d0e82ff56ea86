package saved

import (
	"github.com/phos-gpu/phos/daemon/gpu"
	"github.com/phos-gpu/phos/daemon/worker/ipc"
)

// Import is device memory of another process. The other process saves its content.
type Import struct {
	Token ipc.Token
	// Home is the range of its whole chunks; it contains the object's ID.
	Home gpu.Range
	// Bytes is the size of the other process's allocation.
	Bytes uint64
	// References is how often the program has opened the memory.
	References uint32
}

// code codes memory of another process: its token and addresses, not its content.
func (i *Import) code(c *coder) {
	codeID(c, &i.Token.Exporter)
	codeID(c, &i.Token.Key)
	codeRange(c, &i.Home)
	number(c, &i.Bytes)
	number(c, &i.References)
}

// codeID codes an ID; a zero ID takes no bytes.
func codeID(c *coder, id *ipc.ID) {
	var raw []byte
	if *id != (ipc.ID{}) {
		raw = id[:]
	}
	c.bytes(&raw)
	if c.reading && c.err == nil {
		if len(raw) != len(id) && len(raw) != 0 {
			c.fail("id has %d bytes", len(raw))
		}
		copy(id[:], raw)
	}
}
