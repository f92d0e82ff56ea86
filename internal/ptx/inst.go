package ptx

// Inst is one checked instruction. Fields that an opcode does not use are zero.
type Inst struct {
	Op    Op
	Guard Guard
	// Type is the (last) type suffix of the instruction, the type it works in. Convert-like
	// instructions (cvt, set, slct, shl...) with two types keep the destination type in Type and the
	// source type in SrcType.
	Type, SrcType Type
	// ThirdType is that of mma's operand b, whose operand a has SrcType.
	ThirdType Type
	Round     Round
	Cmp       Cmp
	Bool      BoolOp // second half of setp/set with a combining predicate
	Atom      AtomOp
	Mode      Mode // shfl, vote, prmt, mul hi/lo/wide, bar, testp, shf ... sub-operation
	Space     Space
	Vec       uint8 // number of vector elements of ld/st/mov pack, 1 where scalar
	Flags     Flag
	// Dst and Src are the operands in order; vector operands are flattened (Vec elements). A
	// destination _ is a RegOperand of NoReg. The second destination of p|q is present only where
	// written. An optional source left out in the middle, as the thread count of bar, is a NoOperand.
	// Cache policies and membar scopes are dropped.
	Dst, Src []Operand
	// Addr is the memory operand of ld, st, atom, red, prefetch, cvta-less symbols.
	Addr Address
	// From is the second memory operand of cp.async, which copies from there to Addr.
	From *Address
	// Target is the instruction index of a branch; Targets those of brx.idx.
	Target  int32
	Targets []int32
	// Call is set for call.
	Call *Call
	Pos  Pos
}

// Guard is the @p or @!p before an instruction.
type Guard struct {
	Reg     int32 // predicate register number; -1 where unguarded
	Negated bool
}

// Flag is a set of modifiers.
type Flag uint16

// Modifiers.
const (
	FTZ     Flag = 1 << iota
	Sat          // .sat: to 0..1, or to the integer's range
	Approx       // .approx
	Full         // .full
	CC           // sets the carry flag (add.cc, sub.cc, mad.cc)
	CarryIn      // reads the carry flag (addc, subc, madc)
	Uniform      // .uni
	Volatile
	Sync    // .sync forms of shfl, vote, match, bar.warp
	Wrap    // shf.wrap (else clamp)
	NaN     // min/max .NaN
	XorSign // min/max .xorsign.abs
	Relu
	Unsigned  // szext, bfind.shiftamt and friends use their own Mode; here: address operand is unsigned
	SatFinite // .satfinite: infinity becomes the largest finite value, of cvt to halves
)

// OperandKind tells the operand forms apart.
type OperandKind uint8

// Operand forms.
const (
	NoOperand OperandKind = iota
	RegOperand
	ImmOperand
	SpecialOperand
	SymbolOperand // address of a variable (+ offset), as mov takes it
	FuncOperand   // address of a function
)

// Operand is a source or destination. Kind selects which fields hold.
type Operand struct {
	Kind OperandKind
	Reg  Reg
	// Negated is set for a source predicate written !p.
	Negated bool
	// Imm holds the bits of an immediate, already converted to the instruction's operand type:
	// integers cut to the type's width and then extended, with the sign for S types and with zeroes
	// for U and B types; float32 bits in the low half for f32, float64 bits for f64; 0 or 1 for a
	// predicate.
	Imm     uint64
	Special Special
	Symbol  *Var
	Func    *Func
	Offset  int64
}

// Address is a memory operand [base+offset]: base is a register, a variable or, with neither, an
// absolute address.
type Address struct {
	Reg    Reg // NoReg where Symbol or an absolute address is the base
	Symbol *Var
	Offset int64
}

// Call is the operand set of a call instruction.
type Call struct {
	Func *Func // direct callee; a declaration without body for vprintf, malloc, free, __assertfail
	// Args and Rets are registers, immediates or call-parameter variables (SymbolOperand).
	Args, Rets []Operand
	// Indirect is the register that holds the function's address, NoReg for direct calls.
	Indirect Reg
}

// Op is a base opcode.
type Op uint8

// Base opcodes, alphabetical within groups.
const (
	OpInvalid Op = iota
	// Arithmetic.
	OpAbs
	OpAdd
	OpAddc
	OpBfe
	OpBfi
	OpBfind
	OpBmsk
	OpBrev
	OpClz
	OpCnot
	OpCopysign
	OpDiv
	OpDp2a
	OpDp4a
	OpFma
	OpFns
	OpMad
	OpMad24
	OpMadc
	OpMax
	OpMin
	OpMul
	OpMul24
	OpNeg
	OpPopc
	OpRem
	OpSad
	OpSub
	OpSubc
	OpSzext
	OpVshl // the sum of a shifted a and c
	OpVshr
	OpTestp
	// Floating point functions.
	OpCos
	OpEx2
	OpLg2
	OpRcp
	OpRsqrt
	OpSin
	OpSqrt
	OpTanh
	// Comparison and selection.
	OpSelp
	OpSet
	OpSetp
	OpSlct
	// Logic and shift.
	OpAnd
	OpLop3
	OpNot
	OpOr
	OpPrmt
	OpShf
	OpShl
	OpShr
	OpXor
	// Movement and conversion.
	OpCvt
	OpCvta
	OpCopyAsync // cp.async: Vec elements of 32 bits; Src may hold the number of bytes to read, or a predicate to read none
	OpIsspacep
	OpLd
	OpMov
	OpPack   // mov.bN d, {a,b,..}: Src has Vec elements of width SrcType
	OpUnpack // mov.bN {a,b,..}, s: Dst has Vec elements of width SrcType
	OpPrefetch
	OpSt
	OpLdu
	// Atomics.
	OpAtom
	OpRed
	OpFence // fence, membar
	// Warp.
	OpActivemask
	OpElect
	OpMultimem // on memory that several GPUs have at one address
	OpMatch
	OpRedux
	OpShfl
	OpVote
	OpBarWarp // bar.warp.sync
	// Matrices, which all lanes of a warp hold together.
	OpLdmatrix
	OpMma // Src is operand a, then b, then c; see Fragments
	OpMovmatrix
	OpStmatrix
	// Control.
	OpBar // bar/barrier .sync .arrive .red, see Mode
	OpBra
	OpBrx
	OpBrkpt
	OpCall
	OpExit
	OpNanosleep
	OpRet
	OpTrap
)

// Round is a rounding modifier.
type Round uint8

// Rounding modifiers; integer ones (i) apply in cvt.
const (
	RoundDefault Round = iota
	RN
	RZ
	RM
	RP
	RNA
	RNI
	RZI
	RMI
	RPI
)

// Cmp is a comparison operator. The U forms are true when an operand is NaN.
type Cmp uint8

// Comparison operators.
const (
	CmpNone Cmp = iota
	EQ
	NE
	LT
	LE
	GT
	GE
	LO
	LS
	HI
	HS
	EQU
	NEU
	LTU
	LEU
	GTU
	GEU
	NUM
	NAN
)

// BoolOp combines a comparison with a predicate.
type BoolOp uint8

// Combining operators.
const (
	BoolNone BoolOp = iota
	BoolAnd
	BoolOr
	BoolXor
)

// AtomOp is the operation of atom and red, and of redux and bar.red.
type AtomOp uint8

// Atomic operations.
const (
	AtomNone AtomOp = iota
	AtomAdd
	AtomAnd
	AtomCAS
	AtomDec
	AtomExch
	AtomInc
	AtomMax
	AtomMin
	AtomOr
	AtomXor
)

// Mode is the sub-operation of opcodes that have one.
type Mode uint8

// Sub-operations; each belongs to the opcode in its prefix.
const (
	ModeNone Mode = iota
	MulHi
	MulLo
	MulWide
	ShflUp
	ShflDown
	ShflBfly
	ShflIdx
	VoteAll
	VoteAny
	VoteUni
	VoteBallot
	MatchAny
	MatchAll
	BarSync
	BarArrive
	BarRedPopc
	BarRedAnd
	BarRedOr
	ShfLeft
	ShfRight
	PrmtF4E
	PrmtB4E
	PrmtRC8
	PrmtECL
	PrmtECR
	PrmtRC16
	TestpFinite
	TestpInfinite
	TestpNumber
	TestpNotANumber
	TestpNormal
	TestpSubnormal
	BfindShiftAmt
	ClampMode // szext, bmsk, vshl, vshr .clamp
	WrapMode  // and .wrap
	CvtaTo    // cvta.to.space
	DpLo
	DpHi
	CopyCG      // cp.async.cg, which only copies 16 bytes
	MatrixTrans // .trans of ldmatrix, stmatrix and movmatrix
	MmaM8N8K4   // the shapes of mma
	MmaM8N8K16
	MmaM16N8K4
	MmaM16N8K8
	MmaM16N8K16
	MmaM16N8K32
)

// Special is a special register.
type Special uint8

// Special registers; the X, Y, Z forms are consecutive.
const (
	SpecialNone Special = iota
	TidX
	TidY
	TidZ
	NtidX
	NtidY
	NtidZ
	CtaidX
	CtaidY
	CtaidZ
	NctaidX
	NctaidY
	NctaidZ
	LaneID
	WarpID
	NwarpID
	SMID
	NSMID
	GridID
	LanemaskEQ
	LanemaskLE
	LanemaskLT
	LanemaskGE
	LanemaskGT
	Clock
	ClockHi
	Clock64
	Globaltimer
	GlobaltimerLo
	GlobaltimerHi
	DynamicSmemSize
	TotalSmemSize
	ClusterCtaidX
	ClusterCtaidY
	ClusterCtaidZ
	ClusterNctaidX
	ClusterNctaidY
	ClusterNctaidZ
	ClusterCtarank
	ClusterNctarank
	ClusteridX
	ClusteridY
	ClusteridZ
	NclusteridX
	NclusteridY
	NclusteridZ
	Envreg1 // upper and lower half of the address of a cooperative launch's workspace
	Envreg2
)
