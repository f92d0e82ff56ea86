package ptx

import (
	"strings"
)

// typeFamily groups types that registers and instructions may mix.
type typeFamily uint8

const (
	familyNone typeFamily = iota
	familyBits
	familyInteger
	familyFloat
	familyPredicate
)

// typeFacts describes a fundamental type.
type typeFacts struct {
	name   string
	family typeFamily
	bits   uint16
	signed bool
}

var types = [...]typeFacts{
	NoType: {name: "none"},
	B8:     {"b8", familyBits, 8, false}, B16: {"b16", familyBits, 16, false},
	B32: {"b32", familyBits, 32, false}, B64: {"b64", familyBits, 64, false}, B128: {"b128", familyBits, 128, false},
	U8: {"u8", familyInteger, 8, false}, U16: {"u16", familyInteger, 16, false},
	U32: {"u32", familyInteger, 32, false}, U64: {"u64", familyInteger, 64, false},
	S8: {"s8", familyInteger, 8, true}, S16: {"s16", familyInteger, 16, true},
	S32: {"s32", familyInteger, 32, true}, S64: {"s64", familyInteger, 64, true},
	U16X2: {"u16x2", familyFloat, 32, false}, S16X2: {"s16x2", familyFloat, 32, false},
	F16: {"f16", familyFloat, 16, false}, F16X2: {"f16x2", familyFloat, 32, false},
	BF16: {"bf16", familyFloat, 16, false}, BF16X2: {"bf16x2", familyFloat, 32, false},
	TF32: {
		"tf32",
		familyFloat,
		32,
		false,
	}, E4M3X2: {"e4m3x2", familyFloat, 16, false}, E5M2X2: {"e5m2x2", familyFloat, 16, false},
	F32: {"f32", familyFloat, 32, false}, F64: {"f64", familyFloat, 64, false},
	PredType: {"pred", familyPredicate, 1, false},
}

// typesByName finds a type by its suffix without the dot.
var typesByName = func() map[string]Type {
	byName := map[string]Type{}
	for t := B8; int(t) < len(types); t++ {
		byName[types[t].name] = t
	}
	return byName
}()

func (t Type) String() string {
	if int(t) < len(types) {
		return types[t].name
	}
	return "invalid"
}

// Bits returns the width of a value of the type; 1 for a predicate.
func (t Type) Bits() int { return int(types[t].bits) }

// Bytes returns the size in memory; 0 for a predicate, which has none.
func (t Type) Bytes() uint64 { return uint64(types[t].bits) / 8 }

// IsFloat reports whether the type is a floating point type, packed ones included.
func (t Type) IsFloat() bool { return types[t].family == familyFloat && t != U16X2 && t != S16X2 }

// IsSigned reports whether the type is a signed integer.
func (t Type) IsSigned() bool { return types[t].signed }

// class returns the register class for values of the type.
func (t Type) class() Class {
	switch t.Bits() {
	case 1:
		return Pred
	case 8, 16:
		return R16
	case 32:
		return R32
	}
	return R64
}

// wide returns the type of twice the width, for mul.wide and mad.wide.
func (t Type) wide() Type {
	switch t {
	case U16:
		return U32
	case S16:
		return S32
	case U32:
		return U64
	case S32:
		return S64
	}
	return NoType
}

// accepts reports whether an instruction operand of type t may be a register declared with type
// reg. Untyped bits match everything of their size, signed and unsigned integers match each other,
// floats match only themselves.
func (t Type) accepts(reg Type) bool {
	return types[t].bits == types[reg].bits && t.mixes(reg)
}

// acceptsWider is the relaxed rule of ld, st and cvt: the register may be wider than the
// instruction's type.
func (t Type) acceptsWider(reg Type) bool {
	if types[reg].bits <= types[t].bits {
		return t.accepts(reg)
	}
	switch types[t].family {
	case familyBits:
		return types[reg].family != familyPredicate
	case familyInteger:
		return types[reg].family == familyBits || types[reg].family == familyInteger
	}
	return types[reg].family == familyBits
}

// mixes compares families only.
func (t Type) mixes(reg Type) bool {
	a, b := types[t].family, types[reg].family
	switch {
	case a == familyPredicate || b == familyPredicate:
		return a == b
	case a == familyBits || b == familyBits:
		return true
	case a == familyInteger:
		return b == familyInteger
	}
	return t == reg
}

var cmpNames = [...]string{
	CmpNone: "", EQ: "eq", NE: "ne", LT: "lt", LE: "le", GT: "gt", GE: "ge", LO: "lo", LS: "ls", HI: "hi", HS: "hs",
	EQU: "equ", NEU: "neu", LTU: "ltu", LEU: "leu", GTU: "gtu", GEU: "geu", NUM: "num", NAN: "nan",
}

var atomNames = [...]string{
	AtomNone: "", AtomAdd: "add", AtomAnd: "and", AtomCAS: "cas", AtomDec: "dec", AtomExch: "exch", AtomInc: "inc",
	AtomMax: "max", AtomMin: "min", AtomOr: "or", AtomXor: "xor",
}

var boolNames = [...]string{BoolNone: "", BoolAnd: "and", BoolOr: "or", BoolXor: "xor"}

var roundNames = [...]string{
	RoundDefault: "", RN: "rn", RZ: "rz", RM: "rm", RP: "rp", RNA: "rna", RNI: "rni", RZI: "rzi", RMI: "rmi", RPI: "rpi",
}

var spaceNames = [...]string{
	Generic: "", Global: "global", Shared: "shared", Local: "local", Const: "const", ParamSpace: "param",
}

var modeNames = [...]string{
	ModeNone: "", MulHi: "hi", MulLo: "lo", MulWide: "wide", ShflUp: "up", ShflDown: "down", ShflBfly: "bfly",
	ShflIdx: "idx", VoteAll: "all", VoteAny: "any", VoteUni: "uni", VoteBallot: "ballot", MatchAny: "any", MatchAll: "all",
	BarSync: "sync", BarArrive: "arrive", BarRedPopc: "red.popc", BarRedAnd: "red.and", BarRedOr: "red.or",
	ShfLeft: "l", ShfRight: "r", PrmtF4E: "f4e", PrmtB4E: "b4e", PrmtRC8: "rc8", PrmtECL: "ecl", PrmtECR: "ecr",
	PrmtRC16: "rc16", TestpFinite: "finite", TestpInfinite: "infinite", TestpNumber: "number",
	TestpNotANumber: "notanumber", TestpNormal: "normal", TestpSubnormal: "subnormal", BfindShiftAmt: "shiftamt",
	ClampMode: "clamp", WrapMode: "wrap", CvtaTo: "to", DpLo: "lo", DpHi: "hi", CopyCG: "cg",
	MatrixTrans: "trans", MmaM8N8K4: "m8n8k4", MmaM8N8K16: "m8n8k16", MmaM16N8K4: "m16n8k4", MmaM16N8K8: "m16n8k8",
	MmaM16N8K16: "m16n8k16", MmaM16N8K32: "m16n8k32",
}

// nameOf is safe for values outside the table.
func nameOf[T ~uint8](names []string, i T) string {
	if int(i) < len(names) {
		return names[i]
	}
	return "invalid"
}

func (c Cmp) String() string     { return nameOf(cmpNames[:], c) }
func (a AtomOp) String() string  { return nameOf(atomNames[:], a) }
func (b BoolOp) String() string  { return nameOf(boolNames[:], b) }
func (r Round) String() string   { return nameOf(roundNames[:], r) }
func (s Space) String() string   { return nameOf(spaceNames[:], s) }
func (m Mode) String() string    { return nameOf(modeNames[:], m) }
func (s Special) String() string { return specialNames[s] }

// specialNames are the names that specialRegisters declares.
var specialNames = func() map[Special]string {
	names := map[Special]string{}
	for name, s := range specialRegisters {
		names[s.special] = name
	}
	return names
}()

var opNames = [...]string{
	OpInvalid: "invalid", OpAbs: "abs", OpAdd: "add", OpAddc: "addc", OpBfe: "bfe", OpBfi: "bfi", OpBfind: "bfind",
	OpBmsk: "bmsk", OpBrev: "brev", OpClz: "clz", OpCnot: "cnot", OpCopysign: "copysign", OpDiv: "div", OpDp2a: "dp2a",
	OpDp4a: "dp4a", OpFma: "fma", OpFns: "fns", OpMad: "mad", OpMad24: "mad24", OpMadc: "madc", OpMax: "max",
	OpMin: "min", OpMul: "mul", OpMul24: "mul24", OpNeg: "neg", OpPopc: "popc", OpRem: "rem", OpSad: "sad", OpSub: "sub",
	OpSubc: "subc", OpSzext: "szext", OpVshl: "vshl", OpVshr: "vshr", OpTestp: "testp", OpCos: "cos", OpEx2: "ex2", OpLg2: "lg2", OpRcp: "rcp",
	OpRsqrt: "rsqrt", OpSin: "sin", OpSqrt: "sqrt", OpTanh: "tanh", OpSelp: "selp", OpSet: "set", OpSetp: "setp",
	OpSlct: "slct", OpAnd: "and", OpLop3: "lop3", OpNot: "not", OpOr: "or", OpPrmt: "prmt", OpShf: "shf", OpShl: "shl",
	OpShr: "shr", OpXor: "xor", OpCvt: "cvt", OpCvta: "cvta", OpCopyAsync: "cp.async", OpIsspacep: "isspacep", OpLd: "ld", OpMov: "mov",
	OpPack: "pack", OpUnpack: "unpack", OpPrefetch: "prefetch", OpSt: "st", OpLdu: "ldu", OpAtom: "atom", OpRed: "red",
	OpFence: "fence", OpActivemask: "activemask", OpElect: "elect", OpMultimem: "multimem", OpMatch: "match", OpRedux: "redux", OpShfl: "shfl",
	OpVote: "vote", OpBarWarp: "bar.warp", OpLdmatrix: "ldmatrix", OpMma: "mma", OpMovmatrix: "movmatrix", OpStmatrix: "stmatrix", OpBar: "bar", OpBra: "bra", OpBrx: "brx", OpBrkpt: "brkpt", OpCall: "call",
	OpExit: "exit", OpNanosleep: "nanosleep", OpRet: "ret", OpTrap: "trap",
}

func (o Op) String() string { return nameOf(opNames[:], o) }

// String returns the letter that a dump prefixes registers with.
func (c Class) String() string {
	return nameOf([]string{"p", "h", "r", "d"}, c)
}

var linkageNames = [...]string{
	Internal: "internal",
	Visible:  "visible",
	Extern:   "extern",
	Weak:     "weak",
	Common:   "common",
}

func (l Linkage) String() string { return nameOf(linkageNames[:], l) }

// specialRegister is a special register and the type it reads as.
type specialRegister struct {
	special Special
	typ     Type
}

// specialRegisters are the special registers that mov and cvt read.
var specialRegisters = func() map[string]specialRegister {
	table := map[string]specialRegister{
		"%laneid": {LaneID, U32}, "%warpid": {WarpID, U32}, "%nwarpid": {NwarpID, U32},
		"%smid": {SMID, U32}, "%nsmid": {NSMID, U32}, "%gridid": {GridID, U64},
		"%lanemask_eq": {LanemaskEQ, U32}, "%lanemask_le": {LanemaskLE, U32}, "%lanemask_lt": {LanemaskLT, U32},
		"%lanemask_ge": {LanemaskGE, U32}, "%lanemask_gt": {LanemaskGT, U32},
		"%clock": {Clock, U32}, "%clock_hi": {ClockHi, U32}, "%clock64": {Clock64, U64},
		"%globaltimer": {
			Globaltimer,
			U64,
		}, "%globaltimer_lo": {GlobaltimerLo, U32}, "%globaltimer_hi": {GlobaltimerHi, U32},
		"%dynamic_smem_size": {DynamicSmemSize, U32}, "%total_smem_size": {TotalSmemSize, U32},
		"%envreg1": {Envreg1, U32}, "%envreg2": {Envreg2, U32},
		"%cluster_ctarank": {ClusterCtarank, U32}, "%cluster_nctarank": {ClusterNctarank, U32},
	}
	for name, x := range map[string]Special{
		"%tid": TidX, "%ntid": NtidX, "%ctaid": CtaidX, "%nctaid": NctaidX,
		"%cluster_ctaid": ClusterCtaidX, "%cluster_nctaid": ClusterNctaidX,
		"%clusterid": ClusteridX, "%nclusterid": NclusteridX,
	} {
		table[name+".x"] = specialRegister{x, U32}
		table[name+".y"] = specialRegister{x + 1, U32}
		table[name+".z"] = specialRegister{x + 2, U32}
	}
	return table
}()

// refusedSpecials exist in the ISA but not here, listed without trailing numbers. Errors name them
// as special registers.
var refusedSpecials = map[string]bool{
	"%envreg": true, "%pm": true, "%is_explicit_cluster": true, "%aggr_smem_size": true, "%current_graph_exec": true,
	"%reserved_smem_offset_begin": true, "%reserved_smem_offset_end": true, "%reserved_smem_offset_cap": true,
	"%reserved_smem_offset_": true, "%tid": true, "%ntid": true, "%ctaid": true, "%nctaid": true,
}

// specialStem returns a name without the number at its end.
func specialStem(name string) string {
	return strings.TrimRight(strings.TrimSuffix(name, "_64"), "0123456789")
}

// readableAs reports whether mov or cvt may read the register with type t.
func (s specialRegister) readableAs(t Type) bool {
	family := types[t].family
	if family != familyBits && family != familyInteger {
		return false
	}
	switch t.Bits() {
	case 16:
		return s.typ == U32 // in old texts, these registers had 16 bits
	case 32:
		return s.typ == U32 || s.special == GridID
	}
	return t.Bits() == s.typ.Bits()
}
