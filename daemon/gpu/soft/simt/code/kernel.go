package code

import (
	"github.com/phos-gpu/phos/daemon/gpu/ptx"
)

// Kernel is one entry point with all it can call, ready to run.
type Kernel struct {
	Name    string
	Insts   []Inst
	Sources []Source
	Entry   int32

	// RegisterBytes is the size of a warp's register block, Predicates the number of predicate masks.
	RegisterBytes uint32
	Predicates    int32
	Constants32   []Constant
	Constants64   []Constant
	// ConstantPredicates are always zero or all ones.
	ConstantPredicates []Constant
	Specials           []SpecialColumn
	// Frame is the 32-bit column that holds each lane's frame address in local memory.
	Frame uint32

	// StaticShared is shared memory without the dynamic part, whose offset it is.
	StaticShared uint64
	// LocalBytes is local memory per thread, call frames included.
	LocalBytes uint64
	ParamBytes uint64
	Params     []*ptx.Var
	// Sites is how many memory instructions there are: each may remember where it went last.
	Sites int32
	// Functions are those whose address is taken, by address.
	Functions map[uint64]*Function

	MaxThreads, RequiredThreads [3]uint32
	// Registers is the number of 32-bit registers a thread uses.
	Registers int32
}

// Constant is a value that a column has in all lanes.
type Constant struct {
	At    uint32
	Value uint64
}

// SpecialColumn is a column that holds a special register.
type SpecialColumn struct {
	At      uint32
	Special ptx.Special
	Wide    bool // 64 bits
}

// Column sizes in bytes: 32 lanes of 4 and of 8 bytes.
const (
	column32 = 128
	column64 = 256
)
