package saved

import (
	"github.com/phos-gpu/phos/daemon/gpu"
	"github.com/phos-gpu/phos/daemon/worker/ipc"
)

// Import is device memory of another process. Its content is saved there.
type Import struct {
	Token ipc.Token
	// Home is where whole chunks of it are; the object's ID lies in there.
	Home gpu.Range
	// Bytes is the size of the other's allocation.
	Bytes uint64
	// References is how often the program has opened it.
	References uint32
}

func (i *Import) code(c *coder) {
	codeID(c, &i.Token.Exporter)
	codeID(c, &i.Token.Key)
	codeRange(c, &i.Home)
	number(c, &i.Bytes)
	number(c, &i.References)
}

// codeID writes a number that is not 0, or nothing.
func codeID(c *coder, id *ipc.ID) {
	var raw []byte
	if *id != (ipc.ID{}) {
		raw = id[:]
	}
	c.bytes(&raw)
	if c.reading && c.err == nil {
		if len(raw) != len(id) && len(raw) != 0 {
			c.fail("a random number of %d bytes", len(raw))
		}
		copy(id[:], raw)
	}
}
