package ptx

import (
	"fmt"
	"strings"
)

// The instruction table is a list of forms: an opcode, the modifiers it takes, the operands it takes. Several forms may
// share an opcode; the first whose modifiers fit is the one. Modifiers fit in any order, except that types keep theirs.
//
// Modifiers are words separated by blanks. A word is a modifier without its dot, a $group, or alternatives a|b|c, and
// optional with a final ?. Operands are words too:
//
//	d      destination of the instruction's type     d|p   the same, and maybe a predicate behind '|'
//	a      source register or constant               i     a constant from 0 to 255
//	m      address                                   c     cache policy, present iff .L2::cache_hint is; dropped
//	*      operands with a check of their own in code
//	D, A   as d and a; a vector if .v2 .v4 .v8 is there; ld, st and cvt rules: the register may be wider
//	V, W   as d and a, vectors if .v2 .v4 .v8 is there
//
// followed by .TYPE where it is not the instruction's: d.u32, a.wide (twice as wide), a.src (the second type). A final _ allows the sink, a final ? makes an operand optional.

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
	for _, rows := range [][]row{arithmeticRows, floatRows, logicRows, moveRows, atomicRows, warpRows} {
		for _, r := range rows {
			byName[r.name] = append(byName[r.name], compileRow(r))
		}
	}
	return byName
}()

// compileRow panics on a mistake in a table: it runs before main, so no test can miss it.
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

// plainChoice is a modifier that means the same for every opcode.
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

// of is the type an operand must have.
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
