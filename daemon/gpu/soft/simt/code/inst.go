package code

import (
	"github.com/phos-gpu/phos/daemon/gpu/soft/simt/arith"
	"github.com/phos-gpu/phos/daemon/gpu/soft/simt/lanes"
	"github.com/phos-gpu/phos/daemon/gpu/soft/simt/matrix"
	"github.com/phos-gpu/phos/internal/ptx"
)

// Shape is the way in which an instruction is executed.
type Shape uint8

// Shapes. Those with a loop in package lanes come first. Scalar shapes are executed lane by lane by
// a function of package arith.
const (
	Nop Shape = iota
	Loop32
	Loop64
	LoopWiden
	LoopNarrow
	LoopShift64
	LoopCompare32
	LoopCompare64
	Select32
	Select64
	Scalar
	ScalarCompare
	ScalarCarry
	PredicateLogic
	Pack
	Unpack
	Clock
	Param
	Load
	Store
	Atomic
	Branch
	BranchIndexed
	Call
	CallBuiltin
	Return
	Exit
	Trap
	Breakpoint
	Barrier
	WarpBarrier
	Shuffle
	Vote
	Match
	Redux
	ActiveMask
	Elect
	Yield
	Refuse   // an instruction that can be part of code, but not be executed
	LoadPart // the load of a cp.async that reads only part
	MatrixMultiply
	MatrixLoad
	MatrixStore
	MatrixMove
)

// NoPredicate marks an absent predicate operand.
const NoPredicate = -1

// Inst is one instruction. D, A, B and C are byte offsets of columns in a warp's register block.
type Inst struct {
	Shape Shape
	// GuardNegated negates Guard; NegateC negates the predicate C.
	GuardNegated, NegateC bool
	Invert                bool // a comparison's answer is inverted
	Bool                  ptx.BoolOp
	Memory                Memory
	// Guard is the guard predicate, or NoPredicate.
	Guard      int32
	D, A, B, C uint32
	// Q is the second predicate destination, or NoPredicate.
	Q int32
	// Target is the target of a branch or call.
	Target int32
	Site   int32 // see Text.Sites
	Offset int64 // of the memory operand

	F32 lanes.F32
	F64 lanes.F64
	X   *Extra
}

// Memory describes a memory access.
type Memory struct {
	Space Space
	Bytes uint8 // of one element
	Vec   uint8
	// Address32 is set if the address register has 32 bits, Frame if the address is relative to the
	// function's frame.
	Address32, Frame bool
	Signed           bool
	// Sync is set for volatile, relaxed, acquire and release accesses.
	Sync bool
	// Simple is set if one element moves between memory and a register of its width.
	Simple bool
}

// Space is the state space of an access.
type Space uint8

// Spaces. Const is in device memory, like Global.
const (
	Generic Space = iota
	Global
	Shared
	Local
)

// Ref is a register of any class: the byte offset of its column, or the number of a predicate.
type Ref struct {
	At    uint32
	Class ptx.Class
	// Sink is set if the operand is absent or _.
	Sink    bool
	Negated bool // negated predicate source
}

// Extra holds operands that only few instructions have.
type Extra struct {
	Widen     lanes.Widen
	Narrow    lanes.Narrow
	Shift64   lanes.Shift64
	Compare32 lanes.Compare32
	Compare64 lanes.Compare64

	Scalar arith.Func
	Carry  arith.CarryFunc
	// CarryOut is set if the instruction writes the carry flag.
	CarryOut bool

	Dst, Src []Ref
	// Element is the width in bytes of one part of Pack and Unpack.
	Element uint8

	Atomic  *arith.Atomic
	Mode    ptx.Mode
	Atom    ptx.AtomOp
	Type    ptx.Type
	Special ptx.Special
	Sync    bool

	Targets []int32
	Call    *CallSite
	Reason  string // of Refuse
	Matrix  *matrix.Operation
}

// CallSite is a call. Places in memory are relative to the frame of their function.
type CallSite struct {
	// Builtin is the callee if it is not a function of the program.
	Builtin Builtin
	// Indirect is the register with the function's address; a Sink in direct calls.
	Indirect Ref
	// FrameBytes is the size of the caller's frame. The callee's frame starts after it.
	FrameBytes uint32
	Args, Rets []Move
	// Function is the callee of a direct call.
	Function *Function
	// Within is the callee in whose code the call is; nil in the kernel's own code.
	Within *Callee
}

// Move copies an argument to the callee or a result to the caller.
type Move struct {
	From, To Place
	Bytes    uint32
}

// Place is a register or a place in a frame.
type Place struct {
	InFrame bool
	Offset  uint32
	Ref     Ref
}

// Builtin is a function that the interpreter implements.
type Builtin uint8

// The builtin functions.
const (
	NoBuiltin Builtin = iota
	Vprintf
	AssertFail
	Malloc
	Free
)

// Function is a callable function in a kernel's code.
type Function struct {
	Name       string
	Entry      int32 // index of its first instruction
	FrameBytes uint32
	// A call saves the registers of a Recursive function: its 32-bit and its 64-bit columns, and its
	// predicates from the first to the one after the last.
	Recursive      bool
	Narrow, Wide   Columns
	SavePredicates [2]int32
}

// Columns are columns at equal distances.
type Columns struct {
	First, Stride uint32
	Count         int
}

// Source is the PTX instruction behind an Inst, for faults.
type Source struct {
	Inst     *ptx.Inst
	Function string
}
