package ptx

import (
	"slices"
	"strings"
)

// decoded is an opcode with its modifiers, "add.rn.f32". It is decoded once per text.
type decoded struct {
	form *form
	// inst is the instruction without operands.
	inst Inst
	// fourth is the type of mma's operand c.
	fourth Type
	// types counts the types seen, policy is set by .L2::cache_hint, hinted by every hint for global
	// memory only.
	types  int
	policy bool
	hinted bool
	err    string // why the opcode is refused; empty if it is not
}

// addType sets the next type of the instruction.
func (d *decoded) addType(t Type) {
	switch d.types {
	case 0:
		d.inst.Type = t
	case 1:
		d.inst.SrcType = t
	case 2:
		d.inst.ThirdType = t
	default:
		d.fourth = t
	}
	d.types++
}

// decode returns the decoded opcode, from the cache or new.
func (p *parser) decode(opcode string) *decoded {
	if d, ok := p.decoded[opcode]; ok {
		return d
	}
	d := decodeOpcode(opcode)
	p.decoded[opcode] = d
	return d
}

// decodeOpcode decodes an opcode by the first form that fits.
func decodeOpcode(opcode string) *decoded {
	words := strings.Split(opcode, ".")
	candidates := forms[words[0]]
	if candidates == nil {
		return refuse(opcode, words[0])
	}
	for _, f := range candidates {
		if d := f.match(words[1:]); d != nil {
			return d
		}
	}
	if slices.Contains(unsupported, words[0]) { // other forms are
		return refuse(opcode, words[0])
	}
	for _, word := range words[1:] {
		if !slices.ContainsFunc(candidates, func(f *form) bool { return f.knows(word) }) {
			return &decoded{err: "illegal modifier '." + word + "' in '" + opcode + "'"}
		}
	}
	return &decoded{err: "illegal combination of modifiers and types in '" + opcode + "'"}
}

// refuse returns the error for an opcode that is not in the table.
func refuse(opcode, base string) *decoded {
	if slices.Contains(unsupported, base) {
		return &decoded{err: "instruction '" + opcode + "' is not supported"}
	}
	return &decoded{err: "unknown instruction '" + opcode + "'"}
}

// match matches modifiers with the form's slots; nil if they do not fit.
func (f *form) match(words []string) *decoded {
	d := &decoded{form: f, inst: Inst{Op: f.op, Vec: 1, Target: -1, Guard: Guard{Reg: -1}, Addr: Address{Reg: NoReg}}}
	used := make([]bool, len(f.slots))
	for _, word := range words {
		if !f.fit(word, used, d) {
			return nil
		}
	}
	for i, s := range f.slots {
		if !used[i] && !s.optional {
			return nil
		}
	}
	if verify := verifiers[f.op]; verify != nil && !verify(d) {
		return nil
	}
	return d
}

// fit assigns one modifier to the first free slot that accepts it.
func (f *form) fit(word string, used []bool, d *decoded) bool {
	for i, s := range f.slots {
		if used[i] {
			continue
		}
		if c := s.find(word); c != nil {
			used[i] = true
			c.apply(d)
			return true
		}
		if _, isType := typesByName[word]; isType && s.types && !s.optional {
			return false // types keep their order
		}
	}
	return false
}

// find returns the choice for a modifier, or nil.
func (s *slot) find(word string) *choice {
	for i := range s.choices {
		if s.choices[i].name == word {
			return &s.choices[i]
		}
	}
	return nil
}

// knows reports whether some slot of the form accepts a modifier.
func (f *form) knows(word string) bool {
	return slices.ContainsFunc(f.slots, func(s slot) bool { return s.find(word) != nil })
}

// verifiers refuse combinations of modifiers that a form cannot express.
var verifiers = map[Op]func(*decoded) bool{
	OpCvt: verifyCvt, OpLd: verifyMemory, OpSt: verifyMemory, OpLdu: verifyMemory, OpAtom: verifyMemory, OpRed: verifyMemory,
	OpAddc: verifyCarry, OpSubc: verifyCarry, OpMadc: verifyCarry,
	OpMad: verifyMad, OpMad24: verifyMad, OpMma: verifyMatrix,
}

// verifyCarry sets CarryIn for opcodes that read the carry flag.
func verifyCarry(d *decoded) bool {
	d.inst.Flags |= CarryIn
	return true
}

// verifyMad allows saturation in mad.hi only.
func verifyMad(d *decoded) bool { return d.inst.Flags&Sat == 0 || d.inst.Mode == MulHi }

// verifyMemory checks vector sizes: 16 bytes, or 32 bytes in global memory, with v8 for 32-bit
// elements only.
func verifyMemory(d *decoded) bool {
	bits := int(d.inst.Vec) * d.inst.Type.Bits()
	switch {
	case d.hinted && d.inst.Space != Generic && d.inst.Space != Global:
		return false
	case d.inst.Vec == 8 && d.inst.Op != OpAtom && d.inst.Op != OpRed:
		return d.inst.Space == Global && d.inst.Type.Bits() == 32
	case bits == 256:
		return d.inst.Space == Global && d.inst.Type.Bits() == 64 && d.inst.Op != OpLdu
	}
	return bits <= 128
}

// verifyCvt checks which conversions need a rounding mode, and which modes they accept.
func verifyCvt(d *decoded) bool {
	to, from, i := d.inst.Type, d.inst.SrcType, &d.inst
	integral := i.Round >= RNI
	if i.Flags&FTZ != 0 && to != F32 && from != F32 {
		return false
	}
	if i.Flags&Sat != 0 && i.Round < RNI && (to == BF16 || from == BF16) && i.Flags&Relu == 0 {
		return false
	}
	switch {
	case to == F16X2 || to == BF16X2 || to >= TF32 || i.Flags&Relu != 0:
		return true
	case !to.IsFloat() && !from.IsFloat():
		return i.Round == RoundDefault
	case !to.IsFloat():
		return integral
	case !from.IsFloat():
		return i.Round != RoundDefault && !integral
	case to == from:
		return i.Round == RoundDefault || integral
	case to.Bits() >= from.Bits() && to != F16 && to != BF16:
		return i.Round == RoundDefault
	}
	return i.Round != RoundDefault && !integral
}
