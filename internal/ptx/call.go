package ptx

// labelled parses the directives that follow a label; it returns false for other directives.
func (p *parser) labelled(name string, pos Pos) bool {
	s := symbol{pos: pos}
	switch p.lex.Text {
	case ".branchtargets":
		p.next()
		s.kind, s.targets = targetsSymbol, p.labelList()
	case ".calltargets":
		p.next()
		s.kind, s.fn = prototypeSymbol, p.callTargets()
	case ".callprototype":
		p.next()
		s.kind, s.fn = prototypeSymbol, p.prototype()
	default:
		return false
	}
	p.expect(';')
	if !p.bad {
		p.declare(name, s)
	}
	return true
}

// labelList parses a list of labels.
func (p *parser) labelList() (refs []labelRef) {
	for !p.bad {
		name, pos := p.name()
		refs = append(refs, labelRef{name: name, pos: pos})
		if !p.accept(',') {
			break
		}
	}
	return refs
}

// callTargets parses a list of functions, which have one signature, and returns the first.
func (p *parser) callTargets() (first *Func) {
	for !p.bad {
		name, pos := p.name()
		s, _ := p.lookup(name)
		switch {
		case p.bad:
		case s.kind != funcSymbol:
			p.errorAt(pos, "'%s' is not a function", name)
		case first == nil:
			first = s.fn
		case !sameSignature(first, s.fn):
			p.errorAt(pos, "'%s' has another signature than '%s'", name, first.Name)
		}
		if !p.accept(',') {
			break
		}
	}
	return first
}

// prototype parses (ret) _ (params), the signature of an indirect call.
func (p *parser) prototype() *Func {
	f := &Func{}
	// Its registers and names are discarded.
	outer, saved := p.scope, p.fn.f.Registers
	p.scope = &scope{parent: outer}
	if p.at('(') {
		f.Returns, f.ReturnRegs = p.params()
	}
	p.name()
	if p.at('(') {
		f.Params, f.ParamRegs = p.params()
	}
	for p.acceptDot(".noreturn") {
	}
	p.scope, p.fn.f.Registers = outer, saved
	p.layoutParams(f)
	return f
}

// call parses the operands of call: (ret), function, (args) and, for an indirect call, a prototype.
func (p *parser) call(inst *Inst) {
	c := &Call{Indirect: NoReg}
	var rets, args []rawOperand
	if p.at('(') {
		rets = p.callList()
		p.expect(',')
	}
	var callee rawOperand
	callee.name, callee.pos = p.name()
	if p.bad {
		return
	}
	p.resolve(&callee)
	signature := callee.fn
	if p.accept(',') {
		if p.at('(') {
			args = p.callList()
		} else {
			signature = p.callSignature()
		}
		if args != nil && p.accept(',') {
			signature = p.callSignature()
		}
	}
	p.expect(';')
	if p.bad {
		return
	}
	switch {
	case callee.kind == rawFunc && callee.fn.Entry:
		p.errorAt(callee.pos, "'%s' is a kernel", callee.name)
	case callee.kind == rawFunc:
		c.Func, signature = callee.fn, callee.fn
	case callee.kind == rawReg && types[callee.typ].bits == 64 && signature != nil:
		c.Indirect = callee.reg
	case callee.kind == rawReg:
		p.errorAt(callee.pos, "an indirect call needs a 64-bit register and a prototype")
	default:
		p.errorAt(callee.pos, "%s is not a function", callee.describe())
	}
	if p.bad {
		return
	}
	c.Rets = p.passed(rets, signature.Returns, callee.pos, true)
	c.Args = p.passed(args, signature.Params, callee.pos, false)
	inst.Call = c
}

// callSignature parses the name of a .callprototype or .calltargets.
func (p *parser) callSignature() *Func {
	name, pos := p.name()
	s, _ := p.lookup(name)
	if s.kind != prototypeSymbol {
		p.errorAt(pos, "'%s' is not a prototype", name)
	}
	return s.fn
}

// callList parses (a, b, ...); the result is never nil.
func (p *parser) callList() []rawOperand {
	list := []rawOperand{}
	p.expect('(')
	for !p.at(')') && !p.bad {
		var o rawOperand
		p.elems = p.elems[:0]
		p.simple(&o)
		if o.paired {
			p.errorAt(o.pos, "unexpected '|'")
		}
		list = append(list, o)
		if !p.accept(',') {
			break
		}
	}
	p.expect(')')
	return list
}

// passed checks arguments or return values against the callee's parameters and converts them.
func (p *parser) passed(raw []rawOperand, formal []*Var, pos Pos, results bool) []Operand {
	if len(raw) != len(formal) {
		what := "arguments"
		if results {
			what = "return values"
		}
		p.errorAt(pos, "call with %d %s, expected %d", len(raw), what, len(formal))
		return nil
	}
	ops := p.takeOperands(len(raw))
	for i := range raw {
		ops[i] = p.pass(&raw[i], formal[i], results)
	}
	return ops
}

// pass checks one argument: a variable of the parameter's size, or a scalar register or constant.
func (p *parser) pass(o *rawOperand, formal *Var, result bool) Operand {
	switch {
	case o.kind == rawSink && result:
		return Operand{Kind: RegOperand, Reg: NoReg}
	case o.kind == rawSymbol && o.variable.CallParam && o.offset == 0:
		if o.variable.Bytes != formal.Bytes && formal.Bytes != 0 {
			p.errorAt(o.pos, "'%s' has %d bytes, the parameter %d", o.name, o.variable.Bytes, formal.Bytes)
		}
		return Operand{Kind: SymbolOperand, Symbol: o.variable}
	case o.kind == rawReg && !o.negated && (types[o.typ].bits == 1 || uint64(types[o.typ].bits) == 8*formal.Bytes):
		return Operand{Kind: RegOperand, Reg: o.reg}
	case o.kind == rawConst && !result:
		return Operand{Kind: ImmOperand, Imm: passedBits(o.val, formal.Bytes)}
	}
	p.errorAt(o.pos, "%s does not fit parameter '%s' of %d bytes", o.describe(), formal.Name, formal.Bytes)
	return Operand{}
}

// passedBits returns a constant's bits in a parameter of some size.
func passedBits(v value, bytes uint64) uint64 {
	if v.float && bytes == 4 {
		return uint64(narrow(v.bits))
	}
	return v.bits
}
