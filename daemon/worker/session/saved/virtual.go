package saved

import (
	"github.com/phos-gpu/phos/daemon/gpu"
	"github.com/phos-gpu/phos/daemon/worker/ipc"
	"github.com/phos-gpu/phos/hijack/abi"
)

// Block is memory that the program maps where it likes.
type Block struct {
	Device int32
	// Home is where the session has it, in the heap's part of the GPU's window.
	Home        gpu.Range
	HandleTypes uint32
	Capable     bool
	// References is 0 when the program has released the handle and only mappings are left.
	References uint32
	// Token is how other sessions have it; with an exporter, how this one has another's. Its content
	// is saved there then.
	Token ipc.Token
}

func (b *Block) code(c *coder) {
	number(c, &b.Device)
	codeRange(c, &b.Home)
	number(c, &b.HandleTypes)
	c.flag(&b.Capable)
	number(c, &b.References)
	if c.version >= 4 {
		codeID(c, &b.Token.Exporter)
		codeID(c, &b.Token.Key)
	}
}

// Reservation is a range of addresses that the program asked for.
type Reservation struct {
	gpu.Range
	Mappings []Mapping
}

func (r *Reservation) code(c *coder) {
	codeRange(c, &r.Range)
	list(c, &r.Mappings, func(c *coder, m *Mapping) { m.code(c) })
}

// Mapping is a block, or the beginning of one, behind reserved addresses.
type Mapping struct {
	gpu.Range
	Allocation abi.Handle
	// Access is what each GPU may do, in the driver's numbers.
	Access []uint8
}

func (m *Mapping) code(c *coder) {
	codeRange(c, &m.Range)
	number(c, &m.Allocation)
	numbers(c, &m.Access)
}
