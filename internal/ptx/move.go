package ptx

// checkSpecially checks instructions whose operands have special rules.
func (p *parser) checkSpecially(d *decoded, inst *Inst) {
	switch inst.Op {
	case OpMov:
		if d.form.name == "createpolicy" {
			p.createPolicy(inst)
		} else {
			p.mov(inst)
		}
	case OpCvta:
		p.cvta(inst)
	case OpIsspacep:
		p.isspacep(inst)
	case OpBra:
		p.bra(inst)
	case OpBrx:
		p.brx(inst)
	case OpMma:
		p.matrix(inst)
	case OpCopyAsync:
		p.copyAsync(d, inst)
	case OpFence:
		p.waitGroup(inst)
	}
}

// need checks the number of operands.
func (p *parser) need(inst *Inst, n int) bool {
	if len(p.ops) != n {
		p.errorAt(inst.Pos, "'%s' takes %d operands, found %d", inst.Op, n, len(p.ops))
	}
	for i := range p.ops {
		if p.ops[i].paired {
			p.errorAt(p.ops[i].pos, "unexpected '|'")
		}
	}
	return !p.bad
}

// set1 stores one destination and one source.
func (p *parser) set1(inst *Inst, dst, src Operand) {
	all := p.takeOperands(2)
	all[0], all[1] = dst, src
	inst.Dst, inst.Src = all[:1:1], all[1:]
}

// mov takes registers, constants, special registers, addresses and, on one side, a vector.
func (p *parser) mov(inst *Inst) {
	if !p.need(inst, 2) {
		return
	}
	dst, src := &p.ops[0], &p.ops[1]
	if dst.kind == rawVector || src.kind == rawVector {
		p.packed(inst, dst, src)
		return
	}
	p.set1(inst, p.destination(dst, inst.Type, Type.accepts), p.movSource(src, inst.Type))
}

// movSource is source for a mov, which takes special registers and addresses too.
func (p *parser) movSource(o *rawOperand, t Type) Operand {
	switch o.kind {
	case rawSpecial:
		if !o.special.readableAs(t) {
			p.errorAt(o.pos, "special register '%s' cannot be read as .%s", o.name, t)
		}
		return Operand{Kind: SpecialOperand, Special: o.special.special}
	case rawSymbol:
		return p.symbolAddress(o, t)
	case rawFunc:
		if t.class() != R64 || t.IsFloat() {
			p.errorAt(o.pos, "the address of '%s' does not fit type .%s", o.name, t)
		}
		return Operand{Kind: FuncOperand, Func: o.fn}
	}
	return p.source(o, t, Type.accepts)
}

// symbolAddress returns the address of a variable within its space. Addresses of shared and local
// memory fit into 32 bits.
func (p *parser) symbolAddress(o *rawOperand, t Type) Operand {
	bits := 64
	if space := o.variable.Space; space == Shared || space == Local || space == ParamSpace {
		bits = 32
	}
	if t.IsFloat() || t.Bits() < bits {
		p.errorAt(o.pos, "the address of '%s' does not fit type .%s", o.name, t)
	}
	if o.variable.Space == Generic {
		p.errorAt(o.pos, "'%s' has no address", o.name)
	}
	return Operand{Kind: SymbolOperand, Symbol: o.variable, Offset: o.offset}
}

// packed is mov with a vector: d = {a, b} or {a, b} = s.
func (p *parser) packed(inst *Inst, dst, src *rawOperand) {
	vector, scalar := src, dst
	inst.Op = OpPack
	if dst.kind == rawVector {
		vector, scalar = dst, src
		inst.Op = OpUnpack
	}
	element := packElement(inst.Type, vector.count)
	if element == NoType || scalar.kind == rawVector {
		p.errorAt(vector.pos, "cannot move .%s as %d elements", inst.Type, vector.count)
		return
	}
	inst.SrcType, inst.Vec = element, uint8(vector.count)
	all := p.takeOperands(vector.count + 1)
	elements := all[1:]
	for i := range elements {
		e := &p.elems[vector.first+i]
		switch {
		case inst.Op == OpPack:
			elements[i] = p.source(e, element, Type.accepts)
		case e.kind == rawSink:
			elements[i] = Operand{Kind: RegOperand, Reg: NoReg}
		default:
			elements[i] = p.destination(e, element, Type.accepts)
		}
	}
	if inst.Op == OpPack {
		all[0] = p.destination(scalar, inst.Type, Type.accepts)
		inst.Dst, inst.Src = all[:1:1], elements
	} else {
		all[0] = p.movSource(scalar, inst.Type)
		inst.Dst, inst.Src = elements, all[:1:1]
	}
}

// packElement returns the type of one of n parts of t.
func packElement(t Type, n int) Type {
	if types[t].family != familyBits || n != 2 && n != 4 {
		return NoType
	}
	switch t.Bits() / n {
	case 8:
		return B8
	case 16:
		return B16
	case 32:
		return B32
	}
	return NoType
}

// createPolicy creates a cache policy, which is ignored.
func (p *parser) createPolicy(inst *Inst) {
	if n := len(p.ops); n != 1 && n != 2 {
		p.errorAt(inst.Pos, "'createpolicy' takes 1 to 2 operands, found %d", n)
		return
	}
	if len(p.ops) == 2 {
		p.source(&p.ops[1], F32, Type.accepts)
	}
	p.set1(inst, p.destination(&p.ops[0], B64, Type.accepts), Operand{Kind: ImmOperand})
}

// cvta takes a register or, from a space to generic, a variable of it.
func (p *parser) cvta(inst *Inst) {
	if !p.need(inst, 2) {
		return
	}
	o := &p.ops[1]
	var src Operand
	switch {
	case o.kind != rawSymbol:
		src = p.source(o, inst.Type, Type.accepts)
	case inst.Mode == CvtaTo || o.variable.Space != inst.Space:
		p.errorAt(o.pos, "'%s' is in state space .%s", o.name, o.variable.Space)
	default:
		src = p.symbolAddress(o, inst.Type)
	}
	p.set1(inst, p.destination(&p.ops[0], inst.Type, Type.accepts), src)
}

// isspacep takes an address of either width and gives its type to the instruction.
func (p *parser) isspacep(inst *Inst) {
	if !p.need(inst, 2) {
		return
	}
	inst.Type = U64
	if o := &p.ops[1]; o.kind == rawReg && o.reg.Class == R32 {
		inst.Type = U32
	}
	p.set1(inst, p.destination(&p.ops[0], PredType, Type.accepts), p.source(&p.ops[1], inst.Type, Type.accepts))
}

// bra records the label, which pop resolves.
func (p *parser) bra(inst *Inst) {
	if !p.need(inst, 1) {
		return
	}
	o := &p.ops[0]
	if o.name == "" || o.kind != rawName {
		p.errorAt(o.pos, "expected a label, found %s", o.describe())
		return
	}
	p.scope.pending = append(p.scope.pending, labelRef{name: o.name, pos: o.pos, inst: len(p.fn.insts), target: -1})
}

// brx jumps to one of a list of labels.
func (p *parser) brx(inst *Inst) {
	if !p.need(inst, 2) {
		return
	}
	o := &p.ops[1]
	list, _ := p.lookup(o.name)
	if o.kind != rawName || list.kind != targetsSymbol {
		p.errorAt(o.pos, "expected a .branchtargets list, found %s", o.describe())
		return
	}
	inst.Src = p.takeOperands(1)
	inst.Src[0] = p.source(&p.ops[0], U32, Type.accepts)
	if p.bad { // the instruction will not be added, so nothing may refer to it
		return
	}
	inst.Targets = make([]int32, len(list.targets))
	for i, ref := range list.targets {
		ref.inst, ref.target = len(p.fn.insts), i
		p.scope.pending = append(p.scope.pending, ref)
	}
}
