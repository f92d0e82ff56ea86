package code

import (
	"sync/atomic"

	"github.com/phos-gpu/phos/internal/ptx"
)

// Kernel is one entry point and all functions that it calls by name, ready to run.
type Kernel struct {
	Name  string
	Entry int32
	Block
	// Frame is the 32-bit column that holds each lane's frame address in local memory.
	Frame uint32

	// StaticShared is the size of static shared memory. Dynamic shared memory starts at this offset.
	StaticShared uint64
	// LocalBytes is local memory per thread, including the frames of all calls by name. Recursion and
	// calls by address may need more, up to LocalLimit.
	LocalBytes, LocalLimit uint64
	ParamBytes             uint64
	Params                 []*ptx.Var
	// Callees are the functions that the kernel may call by address; nil if it makes no such call.
	Callees *Callees
	// Own is the number of the kernel's own instructions if it has callees, which are behind them;
	// else it is 0. So a program counter minus Own, without a sign, puts callees before their
	// callers.
	Own  uint32
	text atomic.Pointer[Text]

	MaxThreads, RequiredThreads [3]uint32
	// Registers estimates how many 32-bit registers a compiler would allocate to a thread.
	Registers int32
}

// Text is the instructions of a kernel, and then those of its callees that are lowered. It only
// grows, so that an index stays what it is.
type Text struct {
	Insts   []Inst
	Sources []Source
	// Sites is the number of memory instructions. Each has an inline cache for its last access.
	Sites int32
}

// Text returns the kernel's instructions. Each lowered callee adds to them.
func (k *Kernel) Text() *Text { return k.text.Load() }

// Block describes a warp's register block, or the part of it that a callee uses.
type Block struct {
	// RegisterBytes is where the block ends, Predicates the number of predicate masks up to its end.
	RegisterBytes uint32
	Predicates    int32
	Constants32   []Constant
	Constants64   []Constant
	// ConstantPredicates are always all zeroes or all ones.
	ConstantPredicates []Constant
	Specials           []SpecialColumn
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
