package ptx

import (
	"slices"
	"strings"
)

func nothing(*decoded) {}

func setFlag(f Flag) func(*decoded) { return func(d *decoded) { d.inst.Flags |= f } }

func setRound(r Round) func(*decoded) { return func(d *decoded) { d.inst.Round = r } }

func setMode(m Mode) func(*decoded) { return func(d *decoded) { d.inst.Mode = m } }

func setSpace(s Space) func(*decoded) { return func(d *decoded) { d.inst.Space = s } }

func setVec(n uint8) func(*decoded) { return func(d *decoded) { d.inst.Vec = n } }

// plainModifiers mean the same wherever a form allows them.
var plainModifiers = map[string]func(*decoded){
	"ftz": setFlag(FTZ), "sat": setFlag(Sat), "satfinite": setFlag(SatFinite), "approx": setFlag(Approx), "full": setFlag(Full),
	"cc": setFlag(CC), "uni": setFlag(Uniform), "sync": setFlag(Sync), "NaN": setFlag(NaN), "relu": setFlag(Relu),
	"xorsign": setFlag(XorSign), "abs": nothing, "red": nothing, "noftz": nothing, "aligned": nothing, "warp": nothing,
	"volatile": setFlag(Volatile), "relaxed": setFlag(Volatile), "acquire": setFlag(Volatile), "release": setFlag(Volatile),
	"acq_rel": setFlag(Volatile), "sc": setFlag(Volatile), "mmio": setFlag(Volatile), "weak": nothing, "nc": nothing,
	"rn": setRound(RN), "rz": setRound(RZ), "rm": setRound(RM), "rp": setRound(RP), "rna": setRound(RNA),
	"rni": setRound(RNI), "rzi": setRound(RZI), "rmi": setRound(RMI), "rpi": setRound(RPI),
	"global": setSpace(Global), "local": setSpace(Local), "const": setSpace(Const),
	"shared": setSpace(Shared), "shared::cta": setSpace(Shared),
	"param": setSpace(ParamSpace), "param::entry": setSpace(ParamSpace), "param::func": setSpace(ParamSpace),
	"v2": setVec(2), "v4": setVec(4), "v8": setVec(8), "to": setMode(CvtaTo),
	"shiftamt": setMode(BfindShiftAmt), "proxy": nothing, "alias": nothing, "cta": nothing,
	"L2::cache_hint": func(d *decoded) { d.policy, d.hinted = true, true },
	"fractional":     nothing, "L1": nothing, "L2": nothing, "L2::evict_last": nothing, "L2::evict_normal": nothing,
	"L2::evict_first": nothing, "L2::evict_unchanged": nothing,
	"launch_dependents": nothing, "wait": nothing, "idx": nothing, "gl": nothing, "sys": nothing,
}

// groups are the $names of the tables.
var groups = map[string][]choice{
	"rnd":    plain("rn rz rm rp"),
	"irnd":   plain("rni rzi rmi rpi"),
	"int":    plain("u16 u32 u64 s16 s32 s64"),
	"wide":   plain("u32 s32 u64 s64"),
	"bits":   plain("b16 b32 b64"),
	"half":   plain("f16 f16x2"),
	"bhalf":  plain("bf16 bf16x2"),
	"vec":    plain("v2 v4 v8"),
	"mem":    plain("b8 b16 b32 b64 u8 u16 u32 u64 s8 s16 s32 s64 f32 f64"),
	"data":   plain("b16 b32 b64 u16 u32 u64 s16 s32 s64 f32 f64"),
	"cvt":    plain("u8 u16 u32 u64 s8 s16 s32 s64 f16 bf16 f32 f64"),
	"sets":   plain("b16 b32 b64 u16 u32 u64 s16 s32 s64 f16 bf16 f32 f64"),
	"sem":    plain("relaxed acquire release acq_rel"),
	"scope":  ignored("cta cluster gpu sys"),
	"lcop":   ignored("ca cg cs lu cv"),
	"ncop":   ignored("ca cg cs"),
	"scop":   ignored("wb cg cs wt"),
	"evict":  hints("L1::evict_normal L1::evict_unchanged L1::evict_first L1::evict_last L1::no_allocate"),
	"evict2": hints("L2::evict_normal L2::evict_first L2::evict_last L2::evict_unchanged"),
	"fetch":  hints("L2::64B L2::128B L2::256B"),
	"mul":    modes(pair[Mode]{"hi", MulHi}, pair[Mode]{"lo", MulLo}),
	"wmul":   modes(pair[Mode]{"wide", MulWide}),
	"dp":     modes(pair[Mode]{"lo", DpLo}, pair[Mode]{"hi", DpHi}),
	"clamp":  modes(pair[Mode]{"clamp", ClampMode}, pair[Mode]{"wrap", WrapMode}),
	"shf":    modes(pair[Mode]{"l", ShfLeft}, pair[Mode]{"r", ShfRight}),
	"shfw":   {{"clamp", nothing}, {"wrap", setFlag(Wrap)}},
	"shfl": modes(pair[Mode]{"up", ShflUp}, pair[Mode]{"down", ShflDown}, pair[Mode]{"bfly", ShflBfly},
		pair[Mode]{"idx", ShflIdx}),
	"vote":   modes(pair[Mode]{"all", VoteAll}, pair[Mode]{"any", VoteAny}, pair[Mode]{"uni", VoteUni}),
	"ballot": modes(pair[Mode]{"ballot", VoteBallot}),
	"many":   modes(pair[Mode]{"any", MatchAny}),
	"mall":   modes(pair[Mode]{"all", MatchAll}),
	"bars":   modes(pair[Mode]{"sync", BarSync}),
	"bara":   modes(pair[Mode]{"arrive", BarArrive}),
	"barp":   modes(pair[Mode]{"popc", BarRedPopc}),
	"barb":   modes(pair[Mode]{"and", BarRedAnd}, pair[Mode]{"or", BarRedOr}),
	"prmt": modes(pair[Mode]{"f4e", PrmtF4E}, pair[Mode]{"b4e", PrmtB4E}, pair[Mode]{"rc8", PrmtRC8},
		pair[Mode]{"ecl", PrmtECL}, pair[Mode]{"ecr", PrmtECR}, pair[Mode]{"rc16", PrmtRC16}),
	"testp": modes(pair[Mode]{"finite", TestpFinite}, pair[Mode]{"infinite", TestpInfinite},
		pair[Mode]{"number", TestpNumber}, pair[Mode]{"notanumber", TestpNotANumber},
		pair[Mode]{"normal", TestpNormal}, pair[Mode]{"subnormal", TestpSubnormal}),
	"eqne":   comparisons("eq ne"),
	"scmp":   comparisons("eq ne lt le gt ge"),
	"ucmp":   comparisons("eq ne lt le gt ge lo ls hi hs"),
	"fcmp":   comparisons("eq ne lt le gt ge equ neu ltu leu gtu geu num nan"),
	"bool":   {{"and", setBool(BoolAnd)}, {"or", setBool(BoolOr)}, {"xor", setBool(BoolXor)}},
	"orand":  {{"and", setBool(BoolAnd)}, {"or", setBool(BoolOr)}},
	"logic":  atoms("and or xor"),
	"minmax": atoms("min max"),
	"arith":  atoms("add min max"),
	"add":    atoms("add"),
	"incdec": atoms("inc dec"),
	"exch":   atoms("exch"),
	"cas":    atoms("cas"),
}

// pair is a modifier and the value it stands for.
type pair[T any] struct {
	name  string
	value T
}

func modes(list ...pair[Mode]) (choices []choice) {
	for _, m := range list {
		choices = append(choices, choice{m.name, setMode(m.value)})
	}
	return choices
}

// comparisons, like atoms, finds values by their printed names.
func comparisons(names string) (choices []choice) {
	for _, name := range strings.Fields(names) {
		cmp := Cmp(indexOf(cmpNames[:], name))
		choices = append(choices, choice{name, func(d *decoded) { d.inst.Cmp = cmp }})
	}
	return choices
}

func atoms(names string) (choices []choice) {
	for _, name := range strings.Fields(names) {
		op := AtomOp(indexOf(atomNames[:], name))
		choices = append(choices, choice{name, func(d *decoded) { d.inst.Atom = op }})
	}
	return choices
}

func setBool(b BoolOp) func(*decoded) { return func(d *decoded) { d.inst.Bool = b } }

// indexOf panics where a table has a name that does not exist.
func indexOf(names []string, name string) int {
	i := slices.Index(names, name)
	if i < 0 {
		panic("ptx: no name " + name)
	}
	return i
}

func plain(names string) (choices []choice) {
	for _, name := range strings.Fields(names) {
		choices = append(choices, plainChoice(name))
	}
	return choices
}

func ignored(names string) (choices []choice) {
	for _, name := range strings.Fields(names) {
		choices = append(choices, choice{name, nothing})
	}
	return choices
}

// hints are ignored, but only global memory takes them.
func hints(names string) (choices []choice) {
	for _, name := range strings.Fields(names) {
		choices = append(choices, choice{name, func(d *decoded) { d.hinted = true }})
	}
	return choices
}
