package ptx

import "github.com/phos-gpu/phos/internal/ptx/token"

// rawKind is the syntactic form of an operand.
type rawKind uint8

const (
	rawNone rawKind = iota
	rawReg
	rawConst
	rawSpecial
	rawSymbol // address of a variable, maybe with an offset
	rawFunc
	rawVector
	rawMemory
	rawSink
	rawName // not declared yet: possibly a label
)

// rawOperand is an operand as written, with names looked up.
type rawOperand struct {
	kind     rawKind
	negated  bool
	typ      Type // of a register
	special  specialRegister
	pos      Pos
	reg      Reg // also the base of an address
	name     string
	variable *Var
	element  uint64 // bytes of an element of the variable
	fn       *Func
	val      value
	offset   int64
	// first and count place a vector's elements, or the second half of a|b, in parser.elems.
	first, count int
	paired       bool
}

// operands parses a list up to the semicolon into p.ops.
func (p *parser) operands() {
	p.ops, p.elems = p.ops[:0], p.elems[:0]
	if p.accept(';') {
		return
	}
	for !p.bad {
		p.ops = append(p.ops, rawOperand{})
		p.operand(&p.ops[len(p.ops)-1])
		if !p.accept(',') {
			break
		}
	}
	p.expect(';')
}

// operand parses one operand.
func (p *parser) operand(o *rawOperand) {
	o.pos = p.lex.Pos()
	switch p.lex.Kind {
	case '{':
		p.vector(o)
	case '[':
		p.memory(o)
	default:
		p.simple(o)
	}
}

// simple parses what may also be in a vector: a name or a constant.
func (p *parser) simple(o *rawOperand) {
	o.pos = p.lex.Pos()
	if p.at('!') {
		ahead := p.lex
		if ahead.Next(); ahead.Kind == token.Ident {
			p.next()
			o.negated = true
		}
	}
	if p.at(',') || p.at(';') || p.at('}') {
		p.errorf("an operand is missing before %s", p.found())
	}
	if !p.at(token.Ident) || p.lex.Text == "WARP_SZ" {
		o.kind, o.val = rawConst, p.constExpr()
		return
	}
	o.name = p.lex.Text
	p.next()
	p.resolve(o)
	if o.kind == rawSymbol && p.accept('[') {
		// array[index] is an address too; the index counts elements.
		o.offset = p.constInt() * int64(o.element)
		p.expect(']')
	}
	switch {
	case p.at('+') || p.at('-'):
		if o.kind != rawSymbol {
			p.errorf("unexpected %s", p.found())
		}
		o.offset += p.symbolOffset()
	case p.at('|'):
		p.next()
		second := rawOperand{}
		second.name, second.pos = p.name()
		p.resolve(&second)
		o.paired, o.first = true, len(p.elems)
		p.elems = append(p.elems, second)
	}
	if o.negated && o.kind != rawReg {
		p.errorAt(o.pos, "'!' needs a predicate")
	}
}

// resolve looks up an operand's name.
func (p *parser) resolve(o *rawOperand) {
	if o.name == "_" {
		o.kind, o.reg = rawSink, NoReg
		return
	}
	s, _ := p.lookup(o.name)
	switch s.kind {
	case regSymbol:
		o.kind, o.reg, o.typ = rawReg, s.reg, s.typ
	case varSymbol:
		o.kind, o.variable, o.element = rawSymbol, s.variable, s.element
	case funcSymbol:
		o.kind, o.fn = rawFunc, s.fn
	case noSymbol:
		if special, ok := specialRegisters[o.name]; ok {
			o.kind, o.special = rawSpecial, special
			return
		}
		o.kind = rawName
	default:
		o.kind = rawName
	}
}

// vector parses { a, b, ... }.
func (p *parser) vector(o *rawOperand) {
	o.kind, o.first = rawVector, len(p.elems)
	p.next()
	p.braces++
	for !p.bad {
		var element rawOperand
		p.simple(&element)
		if element.paired {
			p.errorAt(element.pos, "unexpected '|'")
		}
		p.elems = append(p.elems, element)
		o.count++
		if !p.accept(',') {
			break
		}
	}
	p.closeBrace()
}

// memory parses [base+offset].
func (p *parser) memory(o *rawOperand) {
	o.kind, o.reg = rawMemory, NoReg
	p.next()
	pos := p.lex.Pos()
	if p.at(token.Ident) && p.lex.Text != "WARP_SZ" {
		var base rawOperand
		base.name, base.pos = p.name()
		p.resolve(&base)
		switch base.kind {
		case rawReg:
			o.reg, o.typ = base.reg, base.typ
		case rawSymbol:
			o.variable = base.variable
		case rawName:
			p.errorAt(pos, "undeclared name '%s'", base.name)
		default:
			p.errorAt(pos, "'%s' cannot be an address", base.name)
		}
		o.offset = p.symbolOffset()
	} else {
		o.offset = p.constInt()
	}
	p.expect(']')
}

// takeOperands returns n new operands with capacity n.
func (p *parser) takeOperands(n int) []Operand {
	if n > len(p.slab) {
		p.slab = make([]Operand, max(256, n))
	}
	taken := p.slab[:n:n]
	p.slab = p.slab[n:]
	return taken
}

// constant converts a constant to an operand of a type.
func (p *parser) constant(o *rawOperand, t Type) Operand {
	bits, ok := o.val.immediate(t)
	if !ok {
		p.errorAt(o.pos, "constant does not fit type .%s", t)
	}
	return Operand{Kind: ImmOperand, Imm: bits}
}

// source converts a written operand to a source of a type: a register or a constant.
func (p *parser) source(o *rawOperand, t Type, accepts func(t, reg Type) bool) Operand {
	switch o.kind {
	case rawReg:
		if !accepts(t, o.typ) {
			p.errorAt(o.pos, "'%s' of type .%s cannot be a .%s operand", o.name, o.typ, t)
		}
		if o.negated && t != PredType {
			p.errorAt(o.pos, "'!' needs a predicate")
		}
		return Operand{Kind: RegOperand, Reg: o.reg, Negated: o.negated}
	case rawConst:
		return p.constant(o, t)
	case rawSpecial:
		p.errorAt(o.pos, "special register '%s' is not allowed here", o.name)
	default:
		p.errorAt(o.pos, "%s cannot be a .%s operand", o.describe(), t)
	}
	return Operand{}
}

// destination converts a written operand to a destination of a type.
func (p *parser) destination(o *rawOperand, t Type, accepts func(t, reg Type) bool) Operand {
	switch {
	case o.kind != rawReg:
		p.errorAt(o.pos, "%s cannot be a destination", o.describe())
	case o.negated:
		p.errorAt(o.pos, "'!' in front of a destination")
	case !accepts(t, o.typ):
		p.errorAt(o.pos, "'%s' of type .%s cannot be a .%s operand", o.name, o.typ, t)
	}
	return Operand{Kind: RegOperand, Reg: o.reg}
}

// describe returns the operand's form for a message.
func (o *rawOperand) describe() string {
	switch o.kind {
	case rawName:
		if refusedSpecials[specialStem(o.name)] {
			return "unsupported special register '" + o.name + "'"
		}
		return "undeclared name '" + o.name + "'"
	case rawConst:
		return "a constant"
	case rawVector:
		return "a vector"
	case rawMemory:
		return "an address"
	case rawSink:
		return "'_'"
	}
	return "'" + o.name + "'"
}
