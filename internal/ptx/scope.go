package ptx

import (
	"fmt"

	"github.com/phos-gpu/phos/internal/ptx/token"
)

// symbolKind is the kind of a symbol.
type symbolKind uint8

const (
	noSymbol symbolKind = iota
	regSymbol
	varSymbol
	funcSymbol
	labelSymbol
	targetsSymbol   // of .branchtargets
	prototypeSymbol // of .callprototype and .calltargets
)

// symbol is the meaning of a name. Kind selects the valid fields.
type symbol struct {
	kind      symbolKind
	typ       Type // of a register
	reg       Reg
	variable  *Var
	element   uint64 // bytes of an element of the variable
	fn        *Func  // a function, a prototype, or the first of .calltargets
	label     int32
	targets   []labelRef
	pos       Pos
	undefined bool // a variable or function that was only declared so far
}

// registers is the result of `.reg .b32 %r<100>`: %r0 to %r99, without a map entry each.
type registers struct {
	prefix string
	typ    Type
	first  Reg
	count  int32
	pos    Pos
}

// labelRef is a branch to a label that may follow later: its index is stored there.
type labelRef struct {
	name string
	pos  Pos
	inst int
	// target is the index in Inst.Targets, -1 for Inst.Target.
	target int
}

// scope is a module, a function or a { } block.
type scope struct {
	parent  *scope
	names   map[string]symbol
	ranges  []registers
	pending []labelRef // not found in this scope so far
	// callBytes is how much of the call-parameter frame was taken when the scope opened.
	callBytes uint64
}

// declare adds a name to the current scope. It reports duplicates.
func (p *parser) declare(name string, s symbol) {
	if name == "_" {
		return
	}
	if old, ok := p.scope.find(name); ok {
		p.errorAt(s.pos, "duplicate declaration of '%s', first declared at %s", name, old.pos)
		return
	}
	if p.scope.names == nil {
		p.scope.names = map[string]symbol{}
	}
	p.scope.names[name] = s
}

// find searches this scope only.
func (s *scope) find(name string) (symbol, bool) {
	if name == "" { // where a name was expected and not found
		return symbol{}, false
	}
	if n := len(name) - 1; token.IsDigit(name[n]) {
		for n > 0 && token.IsDigit(name[n-1]) {
			n--
		}
		if r, ok := s.findRange(name[:n], name[n:]); ok {
			return r, true
		}
	}
	if s.names == nil {
		return symbol{}, false
	}
	found, ok := s.names[name]
	return found, ok
}

// findRange finds a numbered register. Leading zeros make a different name.
func (s *scope) findRange(prefix, digits string) (symbol, bool) {
	for i := range s.ranges {
		r := &s.ranges[i]
		if r.prefix != prefix {
			continue
		}
		number, ok := decimal(digits)
		if !ok || number >= r.count {
			return symbol{}, false
		}
		return symbol{kind: regSymbol, typ: r.typ, reg: Reg{r.first.Class, r.first.Index + number}, pos: r.pos}, true
	}
	return symbol{}, false
}

// decimal parses a decimal number without sign.
func decimal(digits string) (n int32, ok bool) {
	if len(digits) > 8 || digits[0] == '0' && len(digits) > 1 {
		return 0, false
	}
	for i := range len(digits) {
		n = n*10 + int32(digits[i]-'0')
	}
	return n, true
}

// lookup finds a name in the current scope and its parents.
func (p *parser) lookup(name string) (symbol, bool) {
	for s := p.scope; s != nil; s = s.parent {
		if found, ok := s.find(name); ok {
			return found, true
		}
	}
	return symbol{}, false
}

// push opens a scope.
func (p *parser) push() { p.scope = &scope{parent: p.scope, callBytes: p.fn.callBytes} }

// pop closes the current scope. Branches to labels that were not found in it are looked up in its
// parent; a function's outermost scope has no parent.
func (p *parser) pop() {
	inner := p.scope
	p.scope = inner.parent
	p.fn.callBytes = inner.callBytes
	for _, ref := range inner.pending {
		label, ok := inner.find(ref.name)
		switch {
		case ok && label.kind == labelSymbol:
			p.fn.bind(ref, label.label)
		case ok:
			p.errorAt(ref.pos, "'%s' is not a label", ref.name)
		case p.scope == &p.global:
			p.errorAt(ref.pos, "undeclared label '%s'", ref.name)
		default:
			p.scope.pending = append(p.scope.pending, ref)
		}
		p.bad = false
	}
}

// bind stores the index of a label.
func (f *funcState) bind(ref labelRef, label int32) {
	inst := &f.insts[ref.inst]
	if ref.target < 0 {
		inst.Target = label
	} else {
		inst.Targets[ref.target] = label
	}
}

// declareRegisters handles the names of one .reg directive, after its type.
func (p *parser) declareRegisters(t Type) {
	for !p.bad {
		name, pos := p.name()
		if p.accept('<') {
			p.declareRange(name, t, pos)
		} else if !p.bad {
			p.declare(name, symbol{kind: regSymbol, typ: t, reg: p.newRegisters(t, 1, pos), pos: pos})
		}
		if !p.accept(',') {
			break
		}
	}
	p.expect(';')
}

// declareRange declares prefix0 .. prefix(n-1).
func (p *parser) declareRange(prefix string, t Type, pos Pos) {
	v := p.binary(power["<<"]) // weaker operators would take the '>'
	count := int64(v.bits)
	p.expect('>')
	if p.bad {
		return
	}
	limit, numbered := int64(maxRegisters), token.IsDigit(prefix[len(prefix)-1])
	if numbered {
		limit = maxNumbered - p.fn.numbered
	}
	if v.float || count < 0 || count > limit {
		p.errorAt(pos, "%d registers '%s': more than %d", count, prefix, limit)
		return
	}
	for i := range p.scope.ranges {
		if old := &p.scope.ranges[i]; old.prefix == prefix {
			p.errorAt(pos, "duplicate declaration of '%s<%d>', first declared at %s", prefix, count, old.pos)
			return
		}
	}
	first := p.newRegisters(t, int(count), pos)
	if !numbered {
		p.scope.ranges = append(p.scope.ranges, registers{prefix, t, first, int32(count), pos})
		return
	}
	// If the prefix ends in a digit, prefix and number are ambiguous, so declare these one by one.
	p.fn.numbered += count
	for i := range int32(count) {
		p.declare(fmt.Sprint(prefix, i), symbol{kind: regSymbol, typ: t, reg: Reg{first.Class, first.Index + i}, pos: pos})
	}
}

// newRegisters numbers registers of a type and returns the first.
func (p *parser) newRegisters(t Type, count int, pos Pos) Reg {
	class := t.class()
	total := &p.fn.f.Registers[class]
	if *total+count > maxRegisters {
		p.errorAt(pos, "more than %d registers of one size", maxRegisters)
		return NoReg
	}
	first := Reg{class, int32(*total)}
	*total += count
	return first
}
