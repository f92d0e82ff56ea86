package saved

import (
	"github.com/phos-gpu/phos/daemon/gpu"
	"github.com/phos-gpu/phos/daemon/worker/ipc"
	"github.com/phos-gpu/phos/hijack/abi"
)

// Block is an allocation of cuMemCreate, which the program maps itself.
type Block struct {
	Device int32
	// Home is its range in the heap's part of the GPU's window.
	Home        gpu.Range
	HandleTypes uint32
	Capable     bool
	// References is 0 if the program has released the handle and only mappings remain.
	References uint32
	// Token names an exported block. If it has an exporter, the block is imported from that session,
	// which saves its content.
	Token ipc.Token
}

// code codes a block; Token since version 4.
func (b *Block) code(c *coder) {
	number(c, &b.Device)
	codeRange(c, &b.Home)
	number(c, &b.HandleTypes)
	c.boolean(&b.Capable)
	number(c, &b.References)
	if c.version >= 4 {
		codeID(c, &b.Token.Exporter)
		codeID(c, &b.Token.Key)
	}
}

// Reservation is a range of addresses that the program reserved.
type Reservation struct {
	gpu.Range
	Mappings []Mapping
}

// code codes a reservation with its mappings.
func (r *Reservation) code(c *coder) {
	codeRange(c, &r.Range)
	list(c, &r.Mappings, func(c *coder, m *Mapping) { m.code(c) })
}

// Mapping is a block, or the beginning of one, mapped at reserved addresses.
type Mapping struct {
	gpu.Range
	Allocation abi.Handle
	// Access is the access of each GPU, as CUmemAccess_flags.
	Access []uint8
}

// code codes a mapping.
func (m *Mapping) code(c *coder) {
	codeRange(c, &m.Range)
	number(c, &m.Allocation)
	numbers(c, &m.Access)
}
