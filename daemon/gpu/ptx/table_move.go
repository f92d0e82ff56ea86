package ptx

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
