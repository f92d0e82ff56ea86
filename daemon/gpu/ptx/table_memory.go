package ptx

import (
	"strings"
)

// moveRows are movement, conversion and memory. Operands written * are checked by code of their own.
var moveRows = []row{
	{OpMov, "mov", "$data|pred", "*"},
	{OpCvt, "cvt", "$irnd|$rnd? ftz? sat? $cvt $cvt", "D A.src"},
	{OpCvt, "cvt", "rn|rz relu satfinite? f16|bf16 f32", "D A.src"},
	{OpCvt, "cvt", "rn|rz satfinite f16|bf16 f32", "D A.src"},
	{OpCvt, "cvt", "rn|rz relu? satfinite? f16x2|bf16x2 f32", "d a.src a.src"},
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
	// Hints about a cache that is not there. What discard leaves in memory is undefined, so leaving it as it is will do.
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

// unsupported are the opcodes of the ISA that are not in the table yet. An error says "not supported" for them and
// "unknown" for anything else.
var unsupported = []string{
	"alloca", "clusterlaunchcontrol", "cp", "fabsdiff", "getctarank", "istypep", "ldmatrix", "mapa", "mbarrier", "mma",
	"movmatrix", "multimem", "setmaxnreg", "sign", "sparse", "stackrestore", "stacksave", "stmatrix", "suld", "suq",
	"sured", "sust", "tcgen05", "tensormap", "tex", "tld4", "txq", "vabsdiff", "vabsdiff2", "vabsdiff4", "vadd", "vadd2",
	"vadd4", "vavrg2", "vavrg4", "vmad", "vmax", "vmax2", "vmax4", "vmin", "vmin2", "vmin4", "vset", "vset2", "vset4",
	"vshl", "vshr", "vsub", "vsub2", "vsub4", "wgmma", "wmma",
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
	// Nothing to count events, and a kernel starts when the one before it has ended: both do nothing, as a fence does here.
	{OpFence, "pmevent", "", "i"},
	{OpFence, "griddepcontrol", "launch_dependents|wait", ""},
}
