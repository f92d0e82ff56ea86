package ptx

import (
	"slices"
	"strings"
)

// arithmeticRows are the integer instructions.
var arithmeticRows = []row{
	{OpAdd, "add", "$int|u16x2|s16x2", "d a a"},
	{OpAdd, "add", "sat s32", "d a a"},
	{OpAdd, "add", "cc $wide", "d a a"},
	{OpAddc, "addc", "cc? $wide", "d a a"},
	{OpSub, "sub", "$int", "d a a"},
	{OpSub, "sub", "sat s32", "d a a"},
	{OpSub, "sub", "cc $wide", "d a a"},
	{OpSubc, "subc", "cc? $wide", "d a a"},
	{OpMul, "mul", "$mul $int", "d a a"},
	{OpMul, "mul", "$wmul u16|s16|u32|s32", "d.wide a a"},
	{OpMad, "mad", "$mul $int", "d a a a"},
	{OpMad, "mad", "$wmul u16|s16|u32|s32", "d.wide a a a.wide"},
	{OpMad, "mad", "$mul sat s32", "d a a a"},
	{OpMad, "mad", "$mul cc $wide", "d a a a"},
	{OpMadc, "madc", "$mul cc? $wide", "d a a a"},
	{OpMul24, "mul24", "$mul u32|s32", "d a a"},
	{OpMad24, "mad24", "$mul u32|s32", "d a a a"},
	{OpMad24, "mad24", "$mul sat s32", "d a a a"},
	{OpSad, "sad", "$int", "d a a a"},
	{OpDiv, "div", "$int", "d a a"},
	{OpRem, "rem", "$int", "d a a"},
	{OpAbs, "abs", "s16|s32|s64", "d a"},
	{OpNeg, "neg", "s16|s32|s64", "d a"},
	{OpMin, "min", "$int|u16x2|s16x2", "d a a"},
	{OpMin, "min", "relu s32|s16x2", "d a a"},
	{OpMax, "max", "$int|u16x2|s16x2", "d a a"},
	{OpMax, "max", "relu s32|s16x2", "d a a"},
	{OpPopc, "popc", "b32|b64", "d.u32 a"},
	{OpClz, "clz", "b32|b64", "d.u32 a"},
	{OpBfind, "bfind", "shiftamt? $wide", "d.u32 a"},
	{OpFns, "fns", "b32", "d a a a.s32"},
	{OpBrev, "brev", "b32|b64", "d a"},
	{OpBfe, "bfe", "$wide", "d a a.u32 a.u32"},
	{OpBfi, "bfi", "b32|b64", "d a a a.u32 a.u32"},
	{OpSzext, "szext", "$clamp u32|s32", "d a a.u32"},
	// Of the video instructions those that cub sorts by.
	{OpVshl, "vshl", "u32 u32 u32 $clamp $then", "d a a a"},
	{OpVshr, "vshr", "u32 u32 u32 $clamp $then", "d a a a"},
	{OpBmsk, "bmsk", "$clamp b32", "d a a"},
	{OpDp4a, "dp4a", "u32|s32 u32|s32", "d a a.src a"},
	{OpDp2a, "dp2a", "$dp u32|s32 u32|s32", "d a a.src a"},
}

// logicRows are the instructions on bits.
var logicRows = []row{
	{OpAnd, "and", "pred|b16|b32|b64", "d a a"},
	{OpOr, "or", "pred|b16|b32|b64", "d a a"},
	{OpXor, "xor", "pred|b16|b32|b64", "d a a"},
	{OpNot, "not", "pred|b16|b32|b64", "d a"},
	{OpCnot, "cnot", "$bits", "d a"},
	{OpLop3, "lop3", "b32", "d a a a i"},
	{OpLop3, "lop3", "$orand b32", "d|p_ a a a i a.pred"},
	{OpShl, "shl", "$bits", "d a a.u32"},
	{OpShr, "shr", "$bits|$int", "d a a.u32"},
	{OpShf, "shf", "$shf $shfw b32", "d a a a.u32"},
	{OpPrmt, "prmt", "b32 $prmt?", "d a a a"},
}

// floatRows are the floating point instructions and the comparisons of all types.
var floatRows = slices.Concat(sumRows(OpAdd, "add"), sumRows(OpSub, "sub"), sumRows(OpMul, "mul"),
	signRows(OpAbs, "abs"), signRows(OpNeg, "neg"), extremeRows(OpMin, "min"), extremeRows(OpMax, "max"),
	functionRows, compareRows())

// sumRows are the forms that add, sub and mul share.
func sumRows(op Op, name string) []row {
	return []row{
		{op, name, "$rnd? ftz? sat? f32", "d a a"},
		{op, name, "$rnd? f64", "d a a"},
		{op, name, "rn? ftz? sat? $half", "d a a"},
		{op, name, "rn? $bhalf", "d a a"},
	}
}

// signRows are the float forms of abs and neg.
func signRows(op Op, name string) []row {
	return []row{
		{op, name, "ftz? f32|f16|f16x2", "d a"},
		{op, name, "f64|bf16|bf16x2", "d a"},
	}
}

// extremeRows are the float forms of min and max.
func extremeRows(op Op, name string) []row {
	return []row{
		{op, name, "ftz? NaN? f32|f16|f16x2", "d a a"},
		{op, name, "ftz? NaN? xorsign abs f32|f16|f16x2", "d a a"},
		{op, name, "NaN? $bhalf", "d a a"},
		{op, name, "NaN? xorsign abs $bhalf", "d a a"},
		{op, name, "f64", "d a a"},
	}
}

var functionRows = []row{
	{OpFma, "fma", "$rnd ftz? sat? f32", "d a a a"},
	{OpFma, "fma", "$rnd f64", "d a a a"},
	{OpFma, "fma", "rn ftz? sat? $half", "d a a a"},
	{OpFma, "fma", "rn ftz? relu $half", "d a a a"},
	{OpFma, "fma", "rn relu? $bhalf", "d a a a"},
	// mad of floats has been a fused operation on every target that is left.
	{OpFma, "mad", "$rnd ftz? sat? f32", "d a a a"},
	{OpFma, "mad", "$rnd f64", "d a a a"},
	{OpDiv, "div", "approx|full|$rnd ftz? f32", "d a a"},
	{OpDiv, "div", "$rnd f64", "d a a"},
	{OpRcp, "rcp", "approx|$rnd ftz? f32", "d a"},
	{OpRcp, "rcp", "$rnd f64", "d a"},
	{OpRcp, "rcp", "approx ftz f64", "d a"},
	{OpSqrt, "sqrt", "approx|$rnd ftz? f32", "d a"},
	{OpSqrt, "sqrt", "$rnd f64", "d a"},
	{OpRsqrt, "rsqrt", "approx ftz? f32|f64", "d a"},
	{OpSin, "sin", "approx ftz? f32", "d a"},
	{OpCos, "cos", "approx ftz? f32", "d a"},
	{OpLg2, "lg2", "approx ftz? f32", "d a"},
	{OpEx2, "ex2", "approx ftz? f32", "d a"},
	{OpEx2, "ex2", "approx $half", "d a"},
	{OpEx2, "ex2", "approx ftz $bhalf", "d a"},
	{OpTanh, "tanh", "approx f32|f16|f16x2|bf16|bf16x2", "d a"},
	{OpTestp, "testp", "$testp f32|f64", "d.pred a"},
	{OpCopysign, "copysign", "f32|f64", "d a a"},
	{OpSelp, "selp", "$data", "d a a a.pred"},
	{OpSlct, "slct", "$data s32", "d a a a.src"},
	{OpSlct, "slct", "ftz? $data f32", "d a a a.src"},
}

// compareRows are setp and set, each with and without a combining predicate.
func compareRows() (rows []row) {
	for _, combine := range []struct{ mods, params string }{{"", ""}, {" $bool", " a.pred"}} {
		for _, mods := range []string{
			"$eqne b16|b32|b64", "$ucmp u16|u32|u64", "$scmp s16|s32|s64",
			"$fcmp ftz? f32|f16|f16x2", "$fcmp f64|bf16|bf16x2",
		} {
			rows = append(rows, row{OpSetp, "setp", mods + combine.mods, "d.pred|p_ a a" + combine.params})
		}
		for _, mods := range []string{
			"$eqne u32|s32|f32 b16|b32|b64", "$ucmp u32|s32|f32 u16|u32|u64", "$scmp u32|s32|f32 s16|s32|s64",
			"$fcmp ftz? u32|s32|f32 f32", "$fcmp u32|s32|f32 f64",
			"$eqne f16|bf16 b16|b32|b64", "$ucmp f16|bf16 u16|u32|u64", "$scmp f16|bf16 s16|s32|s64",
			"$fcmp ftz? f16 f32|f16", "$fcmp f16 f64", "$fcmp bf16 f16|f32|f64|bf16",
			"$fcmp ftz? u16|s16|u32|s32 f16", "$fcmp u16|s16|u32|s32 bf16",
			"$fcmp ftz? u32|s32|f16x2 f16x2", "$fcmp u32|s32|bf16x2 bf16x2",
		} {
			rows = append(rows, row{OpSet, "set", mods + combine.mods, "d a.src a.src" + combine.params})
		}
	}
	return rows
}

// moveRows are movement, conversion and memory. Operands written * are checked by code of their
// own.
var moveRows = []row{
	{OpMov, "mov", "$data|pred", "*"},
	{OpCvt, "cvt", "$irnd|$rnd? ftz? sat? $cvt $cvt", "D A.src"},
	{OpCvt, "cvt", "rn|rz relu satfinite? f16|bf16 f32", "D A.src"},
	{OpCvt, "cvt", "rn|rz satfinite f16|bf16 f32", "D A.src"},
	{OpCvt, "cvt", "rn|rz relu? satfinite? f16x2|bf16x2 f32", "d a.src a.src"},
	{OpCvt, "cvt", "rn satfinite relu? e4m3x2|e5m2x2 f32", "d a.src a.src"},
	{OpCvt, "cvt", "rn satfinite relu? e4m3x2|e5m2x2 f16x2", "d a.src"},
	{OpCvt, "cvt", "rn relu? f16x2 e4m3x2|e5m2x2", "d a.src"},
	{OpCvt, "cvt", "rna satfinite? tf32 f32", "d a.src"},
	{OpCvt, "cvt", "rn|rz relu? satfinite? tf32 f32", "d a.src"},
	{OpCvta, "cvta", "to? global|shared|shared::cta|local|const|param|param::entry u32|u64", "*"},
	{OpIsspacep, "isspacep", "global|shared|shared::cta|local|const|param|param::entry", "*"},

	{OpLd, "ld", "weak? " + ldSpace + "? $lcop?" + fetch + mem, "D m c"},
	{OpLd, "ld", "weak? global?" + evict + fetch + mem, "D m c"},
	{OpLd, "ld", "volatile global|shared|shared::cta? $fetch?" + mem, "D m c"},
	{OpLd, "ld", "relaxed|acquire $scope global|shared|shared::cta?" + evict + fetch + mem, "D m c"},
	{OpLd, "ld", "mmio relaxed sys global? $mem", "D m c"},
	{OpLd, "ld", "global nc $ncop?" + fetch + mem, "D m c"},
	{OpLd, "ld", "global nc" + evict + fetch + mem, "D m c"},
	{OpLdu, "ldu", "global?" + mem, "D m c"},
	{OpSt, "st", "weak? " + stSpace + "? $scop? L2::cache_hint?" + mem, "m A c"},
	{OpSt, "st", "weak? global?" + evict + " L2::cache_hint?" + mem, "m A c"},
	{OpSt, "st", "volatile global|shared|shared::cta?" + mem, "m A c"},
	{OpSt, "st", "relaxed|release $scope global|shared|shared::cta?" + evict + " L2::cache_hint?" + mem, "m A c"},
	{OpSt, "st", "mmio relaxed sys global? $mem", "m A c"},

	{OpPrefetch, "prefetch", "global|local? L1|L2", "m"},
	{OpPrefetch, "prefetch", "global L2::evict_last|L2::evict_normal", "m"},
	{OpPrefetch, "prefetchu", "L1", "m"},
	// Hints for a cache, which the executor does not have. Memory is undefined after discard, so it
	// may keep its content.
	{OpPrefetch, "discard", "global? L2", "m a.u32"},
	{OpPrefetch, "applypriority", "global? L2::evict_normal", "m a.u32"},
	{OpMov, "createpolicy", "fractional $evict2 $evict2? b64", "*"},
}

const (
	ldSpace = "global|shared|shared::cta|local|const|param|param::entry|param::func"
	stSpace = "global|shared|shared::cta|local|param|param::func"
	evict   = " $evict? $evict2?"
	fetch   = " $fetch? L2::cache_hint?"
	mem     = " $vec? $mem"
)

// unsupported are the opcodes of the ISA that are not in the table yet, or not with all their
// forms. An error says "not supported" for them and "unknown" for anything else.
var unsupported = []string{
	"alloca", "clusterlaunchcontrol", "cp", "fabsdiff", "getctarank", "istypep", "ldmatrix", "mapa", "mbarrier", "mma",
	"movmatrix", "setmaxnreg", "sign", "sparse", "stackrestore", "stacksave", "stmatrix", "suld", "suq",
	"sured", "sust", "tcgen05", "tensormap", "tex", "tld4", "txq", "vabsdiff", "vabsdiff2", "vabsdiff4", "vadd", "vadd2",
	"vadd4", "vavrg2", "vavrg4", "vmad", "vmax", "vmax2", "vmax4", "vmin", "vmin2", "vmin4", "vset", "vset2", "vset4",
	"vshl", "vsub", "vsub2", "vsub4", "wgmma", "wmma",
}

// atomicRows are atom, red and the fences.
var atomicRows = append(atomicForms(), []row{
	{OpFence, "membar", "cta|gl|sys", ""},
	{OpFence, "fence", "sc|acq_rel $scope", ""},
	{OpFence, "fence", "proxy alias", ""},
}...)

// atomicForms pairs operations with the types they take.
func atomicForms() (rows []row) {
	const common = "$sem? $scope? global|shared|shared::cta? L2::cache_hint? "
	for _, mods := range []string{
		"$logic b32|b64", "$add u32|s32|u64|f32|f64", "$add noftz f16|f16x2|bf16|bf16x2", "$incdec u32", "$minmax $wide",
	} {
		rows = append(rows,
			row{OpAtom, "atom", common + mods, "d_ m a c"},
			row{OpRed, "red", strings.Replace(common, "$sem", "relaxed|release", 1) + mods, "m a c"})
	}
	rows = append(rows,
		row{OpAtom, "atom", common + "$exch b32|b64", "d_ m a c"},
		row{OpAtom, "atom", common + "$cas b16|b32|b64", "d_ m a a c"})
	const vectors = "$sem? $scope? global L2::cache_hint? "
	for _, mods := range []string{
		"$add v2|v4 f32", "$arith noftz v2|v4|v8 f16|bf16", "$arith noftz v2|v4 f16x2|bf16x2",
	} {
		rows = append(rows,
			row{OpAtom, "atom", vectors + mods, "V m W c"},
			row{OpRed, "red", strings.Replace(vectors, "$sem", "relaxed|release", 1) + mods, "m W c"})
	}
	return rows
}

// multimemForms are the instructions on multicast memory.
func multimemForms() (rows []row) {
	const where, vectors = " $scope? global? ", "v2|v4|v8 f16|bf16|f16x2|bf16x2|f32"
	for _, form := range []struct{ mods, to, from string }{
		{"$minmax $wide", "d", "a"},
		{"$add u32|s32|u64|f32|f64", "d", "a"},
		{"$logic b32|b64", "d", "a"},
		{"$arith acc::f32? f16x2|bf16x2", "d", "a"},
		{"$arith acc::f32? " + vectors, "V", "W"},
	} {
		rows = append(rows,
			row{OpMultimem, "multimem", "ld_reduce weak|relaxed|acquire?" + where + form.mods, form.to + " m"},
			row{OpMultimem, "multimem", "red relaxed|release?" + where + form.mods, "m " + form.from})
	}
	return append(rows,
		row{OpMultimem, "multimem", "st weak|relaxed|release?" + where + "$wide|b32|b64|f16x2|bf16x2|f32|f64", "m a"},
		row{OpMultimem, "multimem", "st weak|relaxed|release?" + where + vectors, "m W"})
}

// matrixRows are the dense forms of mma, the moves of matrices, and cp.async. What that copies is
// there at once: the ISA lets it arrive any time before it is waited for, so there is nothing to
// wait for.
var matrixRows = []row{
	{OpMma, "mma", "sync aligned $mma16 row col f16|f32 f16 f16 f16|f32", "*"},
	{OpMma, "mma", "sync aligned $mma16 row col f32 bf16 bf16 f32", "*"},
	{OpMma, "mma", "sync aligned $mma32 row col f32 tf32 tf32 f32", "*"},
	{OpMma, "mma", "sync aligned $mma64 row col f64 f64 f64 f64", "*"},
	{OpMma, "mma", "sync aligned $mma8 row col satfinite? s32 u8|s8 u8|s8 s32", "*"},
	{OpLdmatrix, "ldmatrix", "sync aligned m8n8 x1|x2|x4 trans? shared|shared::cta? b16", "V.b32 m"},
	{OpStmatrix, "stmatrix", "sync aligned m8n8 x1|x2|x4 trans? shared|shared::cta? b16", "m W.b32"},
	{OpMovmatrix, "movmatrix", "sync aligned m8n8 trans b16", "d.b32 a.b32"},
	{OpCopyAsync, "cp", "async $copy shared|shared::cta $from L2::cache_hint? $fetch?", "*"},
	{OpFence, "cp", "async commit_group|wait_all", ""},
	{OpFence, "cp", "async wait_group", "*"},
}

// warpRows are the instructions of warps, barriers and control.
var warpRows = []row{
	{OpActivemask, "activemask", "b32", "d"},
	{OpElect, "elect", "sync", "d.b32|p_ a.b32"},
	{OpMatch, "match", "$many sync b32|b64", "d.b32 a a.b32"},
	{OpMatch, "match", "$mall sync b32|b64", "d.b32|p a a.b32"},
	{OpRedux, "redux", "sync $arith u32|s32", "d a a.b32"},
	{OpRedux, "redux", "sync $logic b32", "d a a.b32"},
	{OpShfl, "shfl", "sync $shfl b32", "d|p a a.u32 a.u32 a.b32"},
	{OpShfl, "shfl", "$shfl b32", "d|p a a.u32 a.u32"},
	{OpVote, "vote", "sync $vote pred", "d a a.b32"},
	{OpVote, "vote", "sync $ballot b32", "d a.pred a.b32"},
	{OpVote, "vote", "$vote pred", "d a"},
	{OpVote, "vote", "$ballot b32", "d a.pred"},
	{OpBarWarp, "bar", "warp sync", "a.b32"},
	{OpBar, "bar", "cta? $bars", "a.u32 a.u32?"},
	{OpBar, "bar", "cta? $bara", "a.u32 a.u32"},
	{OpBar, "bar", "cta? red $barp u32", "d a.u32 a.u32? a.pred"},
	{OpBar, "bar", "cta? red $barb pred", "d a.u32 a.u32? a.pred"},
	{OpBar, "barrier", "cta? $bars aligned?", "a.u32 a.u32?"},
	{OpBar, "barrier", "cta? $bara aligned?", "a.u32 a.u32"},
	{OpBar, "barrier", "cta? red $barp aligned? u32", "d a.u32 a.u32? a.pred"},
	{OpBar, "barrier", "cta? red $barb aligned? pred", "d a.u32 a.u32? a.pred"},
	{OpNanosleep, "nanosleep", "u32", "a"},
	{OpBra, "bra", "uni?", "*"},
	{OpBrx, "brx", "idx uni?", "*"},
	{OpCall, "call", "uni?", "*"},
	{OpRet, "ret", "uni?", ""},
	{OpExit, "exit", "", ""},
	{OpTrap, "trap", "", ""},
	{OpBrkpt, "brkpt", "", ""},
	// Nothing to count events, and a kernel starts when the one before it has ended: both do nothing,
	// as a fence does here.
	{OpFence, "pmevent", "", "i"},
	{OpFence, "griddepcontrol", "launch_dependents|wait", ""},
}
