package ptx

import "strings"

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
