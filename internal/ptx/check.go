package ptx

import "github.com/phos-gpu/phos/internal/ptx/token"

// guarded parses @p or @!p and the instruction after it.
func (p *parser) guarded() {
	p.next()
	if p.at('@') { // @@DWARF
		p.skipLine()
		return
	}
	guard := Guard{Negated: p.accept('!')}
	name, pos := p.name()
	s, ok := p.lookup(name)
	switch {
	case p.bad:
	case !ok:
		p.errorAt(pos, "undeclared name '%s'", name)
	case s.kind != regSymbol || s.typ != PredType:
		p.errorAt(pos, "'%s' is not a predicate", name)
	default:
		guard.Reg = s.reg.Index
		p.instruction(p.lex.Pos(), p.opcode(), guard)
	}
}

// labelOrInstruction parses a statement that begins with an identifier.
func (p *parser) labelOrInstruction() {
	pos := p.lex.Pos()
	word := p.opcode()
	if !p.at(':') {
		p.instruction(pos, word, Guard{Reg: -1})
		return
	}
	p.next()
	if p.at(token.Dot) && p.labelled(word, pos) {
		return
	}
	p.declare(word, symbol{kind: labelSymbol, label: int32(len(p.fn.insts)), pos: pos})
	p.labelAtEnd = true
}

// opcode parses an opcode with all its modifiers.
func (p *parser) opcode() string {
	if !p.at(token.Ident) {
		p.errorf("expected an instruction, found %s", p.found())
		return ""
	}
	word := p.lex.Opcode()
	p.next()
	for p.at(token.Dot) && typeOrModifier(word) { // blanks inside an opcode
		word += p.lex.Opcode()
		p.next()
	}
	return word
}

// typeOrModifier reports whether a dot after word can only continue an opcode.
func typeOrModifier(word string) bool { return forms[firstWord(word)] != nil }

// firstWord returns an opcode without modifiers: what is before the first dot.
func firstWord(word string) string {
	for i := range len(word) {
		if word[i] == '.' {
			return word[:i]
		}
	}
	return word
}

// instruction parses operands, checks them and adds the instruction.
func (p *parser) instruction(pos Pos, opcode string, guard Guard) {
	if p.bad {
		return
	}
	d := p.decode(opcode)
	if d.err != "" {
		p.errorAt(pos, "%s", d.err)
		return
	}
	inst := d.inst
	inst.Guard, inst.Pos = guard, pos
	if inst.Op == OpCall {
		p.call(&inst)
	} else {
		p.operands()
		if p.bad {
			return
		}
		if d.form.params == "*" {
			p.checkSpecially(d, &inst)
		} else {
			p.checkOperands(d, &inst)
		}
	}
	if !p.bad {
		p.fn.insts = append(p.fn.insts, inst)
		p.labelAtEnd = false
	}
}

// checkOperands matches the operands with the form's rules.
func (p *parser) checkOperands(d *decoded, inst *Inst) {
	f := d.form
	n := len(p.ops)
	if d.policy {
		p.dropPolicy(inst)
		n--
	}
	if p.bad || !p.checkCount(f, inst, n) {
		return
	}
	if n == 0 {
		return
	}
	b := binder{p: p, d: d, inst: inst}
	b.reserve()
	spare, next := n-f.required, 0
	for i := range f.rules {
		r := &f.rules[i]
		if r.kind == 'c' {
			continue
		}
		if r.optional {
			if spare == 0 {
				b.src = append(b.src, Operand{})
				continue
			}
			spare--
		}
		b.bind(r, &p.ops[next])
		next++
	}
	inst.Dst, inst.Src = b.dst, b.src
	p.checkRanges(inst)
}

// checkCount checks the number of operands.
func (p *parser) checkCount(f *form, inst *Inst, n int) bool {
	switch {
	case n >= f.required && n <= f.required+f.optional:
		return true
	case f.optional > 0:
		p.errorAt(inst.Pos, "'%s' takes %d to %d operands, found %d", f.name, f.required, f.required+f.optional, n)
	default:
		p.errorAt(inst.Pos, "'%s' takes %d operands, found %d", f.name, f.required, n)
	}
	return false
}

// dropPolicy checks the cache policy, which is the last operand, and drops it.
func (p *parser) dropPolicy(inst *Inst) {
	if len(p.ops) == 0 {
		p.errorAt(inst.Pos, "'.L2::cache_hint' needs a cache policy")
		return
	}
	p.source(&p.ops[len(p.ops)-1], B64, Type.accepts)
}

// binder stores the operands of one instruction.
type binder struct {
	p        *parser
	d        *decoded
	inst     *Inst
	dst, src []Operand
}

// reserve allocates all operands at once.
func (b *binder) reserve() {
	dst, src := 0, 0
	for i := range b.d.form.rules {
		switch r := &b.d.form.rules[i]; r.kind {
		case 'd':
			dst += 2
		case 'D', 'V':
			dst += int(b.inst.Vec)
		case 'A', 'W':
			src += int(b.inst.Vec)
		case 'a', 'i':
			src++
		}
	}
	all := b.p.takeOperands(dst + src)
	b.dst, b.src = all[:0:dst], all[dst:dst:dst+src]
}

// bind checks one operand against its rule and stores it.
func (b *binder) bind(r *rule, o *rawOperand) {
	p, t := b.p, r.of(b.d)
	if o.paired && !r.pair {
		p.errorAt(o.pos, "unexpected '|'")
		return
	}
	switch r.kind {
	case 'd':
		b.destination(r, o, t)
	case 'a':
		b.src = append(b.src, p.source(o, t, Type.accepts))
	case 'i':
		if o.kind != rawConst || o.val.float || o.val.bits > 255 {
			p.errorAt(o.pos, "expected a constant from 0 to 255")
		}
		b.src = append(b.src, Operand{Kind: ImmOperand, Imm: o.val.bits})
	case 'm':
		p.address(b.inst, o)
	case 'D':
		b.vector(o, t, true, Type.acceptsWider)
	case 'A':
		b.vector(o, t, false, Type.acceptsWider)
	case 'V':
		b.vector(o, t, true, Type.accepts)
	case 'W':
		b.vector(o, t, false, Type.accepts)
	}
}

// destination stores d or d|p.
func (b *binder) destination(r *rule, o *rawOperand, t Type) {
	if r.sink && o.kind == rawSink {
		b.dst = append(b.dst, Operand{Kind: RegOperand, Reg: NoReg})
	} else {
		b.dst = append(b.dst, b.p.destination(o, t, Type.accepts))
	}
	if !o.paired {
		return
	}
	second := &b.p.elems[o.first]
	if second.kind == rawSink {
		b.dst = append(b.dst, Operand{Kind: RegOperand, Reg: NoReg})
		return
	}
	b.dst = append(b.dst, b.p.destination(second, PredType, Type.accepts))
}

// vector stores the elements of a vector operand, or a scalar if the instruction has no vector.
func (b *binder) vector(o *rawOperand, t Type, dst bool, accepts func(t, reg Type) bool) {
	elements := b.p.ops[:0:0]
	switch {
	case b.inst.Vec == 1 && o.kind != rawVector:
		if dst {
			b.dst = append(b.dst, b.p.destination(o, t, accepts))
		} else {
			b.src = append(b.src, b.scalar(o, t, accepts))
		}
		return
	case o.kind != rawVector && b.inst.Vec > 1:
		b.p.errorAt(o.pos, "expected a vector of %d elements", b.inst.Vec)
	case o.kind == rawVector && o.count != int(b.inst.Vec):
		b.p.errorAt(o.pos, "a vector of %d elements, expected %d", o.count, b.inst.Vec)
	default:
		elements = b.p.elems[o.first : o.first+o.count]
	}
	for i := range elements {
		e := &elements[i]
		switch {
		case dst && e.kind == rawSink:
			b.dst = append(b.dst, Operand{Kind: RegOperand, Reg: NoReg})
		case dst:
			b.dst = append(b.dst, b.p.destination(e, t, accepts))
		default:
			b.src = append(b.src, b.p.source(e, t, accepts))
		}
	}
}

// scalar returns a source operand; in cvt it may be a special register.
func (b *binder) scalar(o *rawOperand, t Type, accepts func(t, reg Type) bool) Operand {
	if b.inst.Op == OpCvt && o.kind == rawSpecial && o.special.readableAs(t) {
		return Operand{Kind: SpecialOperand, Special: o.special.special}
	}
	return b.p.source(o, t, accepts)
}

// checkRanges checks what types cannot express: barrier numbers and thread counts.
func (p *parser) checkRanges(inst *Inst) {
	if inst.Op != OpBar || p.bad {
		return
	}
	barrier, threads := inst.Src[0], inst.Src[1]
	if barrier.Kind == ImmOperand && barrier.Imm > 15 {
		p.errorAt(inst.Pos, "barrier %d is out of range, there are 16", barrier.Imm)
	}
	if threads.Kind == ImmOperand && threads.Imm%32 != 0 {
		p.errorAt(inst.Pos, "thread count %d of a barrier is not a multiple of the warp size", threads.Imm)
	}
}

// address checks a memory operand and stores it.
func (p *parser) address(inst *Inst, o *rawOperand) {
	if o.kind != rawMemory {
		p.errorAt(o.pos, "expected an address, found %s", o.describe())
		return
	}
	inst.Addr = Address{Reg: o.reg, Symbol: o.variable, Offset: o.offset}
	switch {
	case o.reg != NoReg:
		if family := types[o.typ].family; family != familyBits && family != familyInteger || types[o.typ].bits < 32 {
			p.errorAt(o.pos, "a register of type .%s cannot be an address", o.typ)
		}
	case o.variable == nil:
	case o.variable.Space == ParamSpace && inst.Space != ParamSpace:
		p.errorAt(o.pos, "'%s' is in state space .param", o.variable.Name)
	case inst.Space != Generic && inst.Space != o.variable.Space:
		p.errorAt(o.pos, "'%s' is in state space .%s, not .%s", o.variable.Name, o.variable.Space, inst.Space)
	case inst.Op == OpSt && inst.Space == ParamSpace && !o.variable.CallParam && p.isParam(o.variable):
		p.errorAt(o.pos, "cannot write to parameter '%s'", o.variable.Name)
	}
}

// isParam reports whether v is an input of the current function.
func (p *parser) isParam(v *Var) bool {
	for _, param := range p.fn.f.Params {
		if param == v {
			return true
		}
	}
	return false
}
