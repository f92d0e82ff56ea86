package ptx

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
	ClampMode: "clamp", WrapMode: "wrap", CvtaTo: "to", DpLo: "lo", DpHi: "hi",
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
	OpSubc: "subc", OpSzext: "szext", OpTestp: "testp", OpCos: "cos", OpEx2: "ex2", OpLg2: "lg2", OpRcp: "rcp",
	OpRsqrt: "rsqrt", OpSin: "sin", OpSqrt: "sqrt", OpTanh: "tanh", OpSelp: "selp", OpSet: "set", OpSetp: "setp",
	OpSlct: "slct", OpAnd: "and", OpLop3: "lop3", OpNot: "not", OpOr: "or", OpPrmt: "prmt", OpShf: "shf", OpShl: "shl",
	OpShr: "shr", OpXor: "xor", OpCvt: "cvt", OpCvta: "cvta", OpIsspacep: "isspacep", OpLd: "ld", OpMov: "mov",
	OpPack: "pack", OpUnpack: "unpack", OpPrefetch: "prefetch", OpSt: "st", OpLdu: "ldu", OpAtom: "atom", OpRed: "red",
	OpFence: "fence", OpActivemask: "activemask", OpElect: "elect", OpMatch: "match", OpRedux: "redux", OpShfl: "shfl",
	OpVote: "vote", OpBarWarp: "bar.warp", OpBar: "bar", OpBra: "bra", OpBrx: "brx", OpBrkpt: "brkpt", OpCall: "call",
	OpExit: "exit", OpNanosleep: "nanosleep", OpRet: "ret", OpTrap: "trap",
}

func (o Op) String() string { return nameOf(opNames[:], o) }

// String gives the letter that a dump prefixes registers with.
func (c Class) String() string {
	return nameOf([]string{"p", "h", "r", "d"}, c)
}

var linkageNames = [...]string{Internal: "internal", Visible: "visible", Extern: "extern", Weak: "weak", Common: "common"}

func (l Linkage) String() string { return nameOf(linkageNames[:], l) }
