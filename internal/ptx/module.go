package ptx

import "github.com/phos-gpu/phos/internal/ptx/token"

// Pos is a position in PTX text.
type Pos = token.Pos

// Module is one parsed and checked PTX text.
type Module struct {
	Version Version
	Target  string // "sm_90"
	Globals []*Var // .global, .const and module-scope .shared, in order of appearance
	Funcs   []*Func
	// MaxRegisters is a limit for all kernels of a program, 0 for none. It is not PTX: libphos.so
	// passes the JIT option of that name by a pragma.
	MaxRegisters uint32

	parser *parser // of an outline, to read bodies later
}

// Version is the PTX ISA version of a text.
type Version struct{ Major, Minor int }

// Space is a state space.
type Space uint8

// State spaces. Generic is the space of addresses without a space.
const (
	Generic Space = iota
	Global
	Shared
	Local
	Const
	ParamSpace
)

// Linkage is the visibility of a symbol.
type Linkage uint8

// Linkages of functions and variables.
const (
	Internal Linkage = iota
	Visible
	Extern
	Weak
	Common
)

// Var is a variable: a global, a constant, shared or local memory of a function, or a call
// parameter.
type Var struct {
	Name    string
	Space   Space
	Linkage Linkage
	Bytes   uint64 // 0 for an extern or incomplete array ([]): dynamic shared memory
	Align   uint64
	Init    []byte       // nil means zeroes; else exactly Bytes long
	Relocs  []Relocation // places in Init that hold addresses of symbols
	// Offset is the place within the function's shared, local, parameter or call-parameter frame.
	// Module-scope shared variables that a kernel can reach get their offset from the executor's
	// layout; see Func.Shared.
	Offset uint64
	// Managed is set by .attribute(.managed): the program reads and writes the variable too.
	Managed bool
	// CallParam tells the two parameter frames apart: true for the variables in Func.CallParams, false
	// for a function's own Params and Returns.
	CallParam bool
	Pos       Pos
}

// Relocation stores the address of a symbol plus Addend at Offset of an initializer. Bytes is its
// width.
type Relocation struct {
	Offset  uint64
	Bytes   uint8
	Symbol  *Var  // nil if Func is set
	Func    *Func // address of a function
	Addend  int64
	Generic bool // generic(symbol): the generic address, else the address within its space
}

// Func is an .entry or .func.
type Func struct {
	Name    string
	Entry   bool
	Linkage Linkage
	// Params are the parameters with their offsets in the parameter block (.entry) or call frame
	// (.func).
	Params []*Var
	// ParamBytes is the size of the block, or of the call frame, which Returns share.
	ParamBytes uint64
	// Returns are the return parameters of a .func. In the call frame they follow Params.
	Returns []*Var
	// Registers of class c are numbered 0..Registers[c]-1.
	Registers [Classes]int
	// ParamRegs and ReturnRegs are set where a .func declares its parameters as .reg; -1 class where
	// in .param space.
	ParamRegs, ReturnRegs []Reg
	Shared, Local         []*Var // declared inside, with offsets
	CallParams            []*Var // .param variables declared inside, with offsets in a frame of CallParamBytes
	LocalBytes            uint64
	SharedBytes           uint64 // static, function scope only
	CallParamBytes        uint64
	Insts                 []Inst // empty for a declaration, and before Complete
	// Performance directives, zero where absent.
	MaxThreads, RequiredThreads [3]uint32
	MinBlocks, MaxRegisters     uint32
	Pos                         Pos

	unread *unread // the body skipped by Outline
}

// Class is a register class.
type Class uint8

// Register classes. 8- and 16-bit registers are of class R16.
const (
	Pred Class = iota
	R16
	R32
	R64
	Classes = 4
)

// Reg names a register: class and number. Reg{} with Index -1 is no register (the sink "_").
type Reg struct {
	Class Class
	Index int32
}

// NoReg is the sink "_" or an absent register.
var NoReg = Reg{Index: -1}

// Type is a PTX fundamental type.
type Type uint8

// The fundamental types.
const (
	NoType Type = iota
	B8
	B16
	B32
	B64
	U8
	U16
	U32
	U64
	S8
	S16
	S32
	S64
	F16
	F16X2
	BF16
	BF16X2
	F32
	F64
	PredType
	B128
	U16X2 // two 16-bit integers in 32 bits, of add, min and max
	S16X2
	TF32 // float32 with 10 bits of fraction, in the upper bits of 32: of cvt and mma
	// E4M3X2 and E5M2X2 are two 8-bit floats, named by their exponent and fraction bits: of cvt.
	E4M3X2
	E5M2X2
)
