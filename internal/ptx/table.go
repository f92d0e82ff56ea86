package ptx

import (
	"fmt"
	"slices"
	"strings"
)

// The instruction table is a list of forms: an opcode, the modifiers it takes, the operands it
// takes. Several forms may share an opcode; the first whose modifiers fit is the one. Modifiers fit
// in any order, except that types keep theirs.
//
// Modifiers are words separated by blanks. A word is a modifier without its dot, a $group, or
// alternatives a|b|c, and optional with a final ?. Operands are words too:
//
//	d      destination of the instruction's type     d|p   the same, and maybe a predicate behind '|'
//	a      source register or constant               i     a constant from 0 to 255
//	m      address                                   c     cache policy of .L2::cache_hint; dropped
//	*      operands with a check of their own in code
//	D, A   as d and a; a vector with .v2 .v4 .v8; the register may be wider (ld, st, cvt)
//	V, W   as d and a, vectors with .v2 .v4 .v8
//
// followed by .TYPE where it is not the instruction's: d.u32, a.wide (twice as wide), a.src (the
// second type). A final _ allows the sink, a final ? makes an operand optional.

// row is one form as the tables write it.
type row struct {
	op                 Op
	name, mods, params string
}

// form is a row made ready for use.
type form struct {
	row
	slots []slot
	rules []rule
	// required and optional count the operands; a policy counts as neither.
	required, optional int
}

// slot takes one modifier.
type slot struct {
	choices  []choice
	optional bool
	types    bool // it takes a type, in order
}

// choice is one modifier and what it does to the instruction.
type choice struct {
	name  string
	apply func(*decoded)
}

// rule is what one operand must be.
type rule struct {
	kind     byte // one of d a i m c D A V W
	typ      ruleType
	fixed    Type
	pair     bool // d|p
	sink     bool
	optional bool
}

// ruleType says where an operand's type comes from.
type ruleType uint8

const (
	ofInst ruleType = iota
	ofSource
	ofWide
	ofFixed
)

// forms are all forms by opcode.
var forms = func() map[string][]*form {
	byName := map[string][]*form{}
	for _, rows := range [][]row{arithmeticRows, floatRows, logicRows, moveRows, atomicRows, warpRows, matrixRows, multimemForms()} {
		for _, r := range rows {
			byName[r.name] = append(byName[r.name], compileRow(r))
		}
	}
	return byName
}()

// compileRow compiles a row. It panics on errors in a table; it runs at initialization, so any test
// finds them.
func compileRow(r row) *form {
	f := &form{row: r}
	for _, word := range strings.Fields(r.mods) {
		f.slots = append(f.slots, compileSlot(word))
	}
	for _, word := range strings.Fields(r.params) {
		rule := compileRule(word)
		f.rules = append(f.rules, rule)
		switch {
		case rule.kind == 'c':
		case rule.optional:
			f.optional++
		default:
			f.required++
		}
	}
	return f
}

// compileSlot compiles a word of a row's modifiers.
func compileSlot(word string) slot {
	word, optional := strings.CutSuffix(word, "?")
	s := slot{optional: optional}
	for _, name := range strings.Split(word, "|") {
		group, ok := strings.CutPrefix(name, "$")
		if !ok {
			s.choices = append(s.choices, plainChoice(name))
			continue
		}
		choices, ok := groups[group]
		if !ok {
			panic(fmt.Sprintf("ptx: no group %q", group))
		}
		s.choices = append(s.choices, choices...)
	}
	_, s.types = typesByName[s.choices[0].name]
	return s
}

// plainChoice returns a modifier that means the same for every opcode.
func plainChoice(name string) choice {
	if t, ok := typesByName[name]; ok {
		return choice{name, func(d *decoded) { d.addType(t) }}
	}
	apply, ok := plainModifiers[name]
	if !ok {
		panic(fmt.Sprintf("ptx: no modifier %q", name))
	}
	return choice{name, apply}
}

// compileRule compiles a word of a row's operands.
func compileRule(word string) rule {
	var r rule
	word, r.optional = strings.CutSuffix(word, "?")
	word, r.sink = strings.CutSuffix(word, "_")
	word, r.pair = strings.CutSuffix(word, "|p")
	kind, typ, typed := strings.Cut(word, ".")
	r.kind = kind[0]
	switch {
	case !typed:
	case typ == "src":
		r.typ = ofSource
	case typ == "wide":
		r.typ = ofWide
	default:
		r.typ, r.fixed = ofFixed, typesByName[typ]
		if r.fixed == NoType {
			panic(fmt.Sprintf("ptx: no type %q", typ))
		}
	}
	return r
}

// of returns the type that an operand must have.
func (r *rule) of(d *decoded) Type {
	switch r.typ {
	case ofSource:
		return d.inst.SrcType
	case ofWide:
		return d.inst.Type.wide()
	case ofFixed:
		return r.fixed
	}
	return d.inst.Type
}

// nothing is the effect of modifiers that are ignored.
func nothing(*decoded) {}

func setFlag(f Flag) func(*decoded) { return func(d *decoded) { d.inst.Flags |= f } }

func setRound(r Round) func(*decoded) { return func(d *decoded) { d.inst.Round = r } }

func setMode(m Mode) func(*decoded) { return func(d *decoded) { d.inst.Mode = m } }

func setSpace(s Space) func(*decoded) { return func(d *decoded) { d.inst.Space = s } }

func setVec(n uint8) func(*decoded) { return func(d *decoded) { d.inst.Vec = n } }

// plainModifiers mean the same wherever a form allows them.
var plainModifiers = map[string]func(*decoded){
	"ftz": setFlag(
		FTZ,
	), "sat": setFlag(Sat), "satfinite": setFlag(SatFinite), "approx": setFlag(Approx), "full": setFlag(Full),
	"cc": setFlag(CC), "uni": setFlag(Uniform), "sync": setFlag(Sync), "NaN": setFlag(NaN), "relu": setFlag(Relu),
	"xorsign": setFlag(XorSign), "abs": nothing, "red": nothing, "noftz": nothing, "aligned": nothing, "warp": nothing,
	"volatile": setFlag(
		Volatile,
	), "relaxed": setFlag(Volatile), "acquire": setFlag(Volatile), "release": setFlag(Volatile),
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
	"m8n8": nothing, "row": nothing, "col": nothing, "trans": setMode(MatrixTrans),
	"x1": setVec(1), "x2": setVec(2), "x4": setVec(4),
	"async": nothing, "commit_group": nothing, "wait_group": nothing, "wait_all": nothing,
	"launch_dependents": nothing, "wait": nothing, "idx": nothing, "gl": nothing, "sys": nothing,
	"ld_reduce": nothing, "st": nothing, "acc::f32": nothing,
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
	"then":   {{"add", nothing}},
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
	"mma16": modes(pair[Mode]{"m16n8k8", MmaM16N8K8}, pair[Mode]{"m16n8k16", MmaM16N8K16}),
	"mma32": modes(pair[Mode]{"m16n8k4", MmaM16N8K4}, pair[Mode]{"m16n8k8", MmaM16N8K8}),
	"mma64": modes(
		pair[Mode]{"m8n8k4", MmaM8N8K4},
		pair[Mode]{"m16n8k4", MmaM16N8K4},
		pair[Mode]{"m16n8k8", MmaM16N8K8},
		pair[Mode]{"m16n8k16", MmaM16N8K16},
	),
	"mma8": modes(pair[Mode]{"m8n8k16", MmaM8N8K16}, pair[Mode]{"m16n8k16", MmaM16N8K16},
		pair[Mode]{"m16n8k32", MmaM16N8K32}),
	"copy":   {{"ca", nothing}, {"cg", setMode(CopyCG)}},
	"from":   ignored("global"),
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

// modes returns the choices of a list of modes.
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

// atoms returns the choices of a list of atomic operations, found by their printed names.
func atoms(names string) (choices []choice) {
	for _, name := range strings.Fields(names) {
		op := AtomOp(indexOf(atomNames[:], name))
		choices = append(choices, choice{name, func(d *decoded) { d.inst.Atom = op }})
	}
	return choices
}

func setBool(b BoolOp) func(*decoded) { return func(d *decoded) { d.inst.Bool = b } }

// indexOf panics if a table has a name that does not exist.
func indexOf(names []string, name string) int {
	i := slices.Index(names, name)
	if i < 0 {
		panic("ptx: no name " + name)
	}
	return i
}

// plain returns modifiers that mean the same for every opcode.
func plain(names string) (choices []choice) {
	for _, name := range strings.Fields(names) {
		choices = append(choices, plainChoice(name))
	}
	return choices
}

// ignored returns modifiers without effect.
func ignored(names string) (choices []choice) {
	for _, name := range strings.Fields(names) {
		choices = append(choices, choice{name, nothing})
	}
	return choices
}

// hints returns modifiers that are ignored, but only allowed for global memory.
func hints(names string) (choices []choice) {
	for _, name := range strings.Fields(names) {
		choices = append(choices, choice{name, func(d *decoded) { d.hinted = true }})
	}
	return choices
}
