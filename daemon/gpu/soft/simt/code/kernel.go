package code

import (
	"github.com/phos-gpu/phos/internal/ptx"
)

// Kernel is one entry point and all functions it can call, ready to run.
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
	// ConstantPredicates are always all zeroes or all ones.
	ConstantPredicates []Constant
	Specials           []SpecialColumn
	// Frame is the 32-bit column that holds each lane's frame address in local memory.
	Frame uint32

	// StaticShared is the size of static shared memory. Dynamic shared memory starts at this offset.
	StaticShared uint64
	// LocalBytes is local memory per thread, including call frames.
	LocalBytes uint64
	ParamBytes uint64
	Params     []*ptx.Var
	// Sites is the number of memory instructions. Each has an inline cache for its last access.
	Sites int32
	// Functions maps addresses to the functions whose address is taken.
	Functions map[uint64]*Function

	MaxThreads, RequiredThreads [3]uint32
	// Registers estimates how many 32-bit registers a compiler would allocate to a thread.
	Registers int32
}

// Constant is a column with the same value in all lanes.
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
