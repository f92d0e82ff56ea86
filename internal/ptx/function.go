package ptx

import (
	"slices"

	"github.com/phos-gpu/phos/internal/ptx/token"
)

// funcState is the state of the function being parsed.
type funcState struct {
	f *Func
	// insts is a buffer for instructions; the function gets an exact copy.
	insts     []Inst
	callBytes uint64 // of the call-parameter frame in use
	numbered  int64  // registers declared one by one, see declareRange
}

// function parses an .entry or .func after the keyword.
func (p *parser) function(entry bool, linkage Linkage, pos Pos) {
	f := &Func{Entry: entry, Linkage: linkage, Pos: pos}
	p.fn = &funcState{f: f, insts: p.instBuffer()}
	p.push()
	defer func() {
		p.scope = &p.global
		p.fn = nil
	}()
	if !entry && p.at('(') {
		f.Returns, f.ReturnRegs = p.params()
	}
	name, namePos := p.name()
	f.Name = name
	if p.at('(') {
		f.Params, f.ParamRegs = p.params()
	}
	p.layoutParams(f)
	p.performance(f)
	if p.bad {
		return
	}
	defined := p.at('{')
	if !defined {
		p.expect(';')
	}
	declared := p.enterFunction(f, defined, namePos)
	if declared == nil || !defined {
		return
	}
	p.fn.f = declared
	if !p.outline || !p.passOver() {
		p.body()
	}
}

// instBuffer returns the buffer of the last function for reuse.
func (p *parser) instBuffer() []Inst {
	buffer := p.insts
	p.insts = nil
	return buffer[:0]
}

// enterFunction declares a function, or completes an earlier declaration. It returns the Func to
// fill, nil on an error.
func (p *parser) enterFunction(f *Func, defined bool, pos Pos) *Func {
	inner := p.scope
	p.scope = &p.global
	defer func() { p.scope = inner }()
	s, seen := p.global.find(f.Name)
	if !seen || s.kind != funcSymbol || defined && !s.undefined {
		p.declare(f.Name, symbol{kind: funcSymbol, fn: f, undefined: !defined, pos: pos})
		if p.bad {
			return nil
		}
		p.module.Funcs = append(p.module.Funcs, f)
		return f
	}
	if !sameSignature(s.fn, f) {
		p.errorAt(pos, "'%s' differs from its declaration at %s", f.Name, s.pos)
		return nil
	}
	if defined {
		if f.Linkage == Internal && s.fn.Linkage != Extern {
			f.Linkage = s.fn.Linkage
		}
		*s.fn = *f
		s.undefined, s.pos = false, pos
		p.global.names[f.Name] = s
	}
	return s.fn
}

// sameSignature compares sizes and offsets of parameters, which callers depend on.
func sameSignature(a, b *Func) bool {
	same := func(v, w *Var) bool { return v.Space == w.Space && v.Bytes == w.Bytes && v.Offset == w.Offset }
	return a.Entry == b.Entry && slices.EqualFunc(a.Params, b.Params, same) &&
		slices.EqualFunc(a.Returns, b.Returns, same)
}

// params parses a parenthesised list of parameters. The registers are nil if none is a register.
func (p *parser) params() (vars []*Var, regs []Reg) {
	p.expect('(')
	inRegs := false
	for !p.at(')') && !p.bad {
		v, reg := p.param()
		if p.bad {
			break
		}
		vars, regs = append(vars, v), append(regs, reg)
		inRegs = inRegs || reg != NoReg
		if !p.accept(',') {
			break
		}
	}
	p.expect(')')
	if !inRegs {
		regs = nil
	}
	return vars, regs
}

// param parses one parameter and declares it in the function's scope.
func (p *parser) param() (*Var, Reg) {
	if p.acceptDot(".reg") {
		t := p.typeName()
		name, pos := p.name()
		if p.bad {
			return nil, NoReg
		}
		reg := p.newRegisters(t, 1, pos)
		p.declare(name, symbol{kind: regSymbol, typ: t, reg: reg, pos: pos})
		return &Var{Name: name, Bytes: t.Bytes(), Align: t.Bytes(), Pos: pos}, reg
	}
	if !p.acceptDot(".param") {
		p.errorf("expected '.param' or '.reg', found %s", p.found())
	}
	d := declaration{v: Var{Space: ParamSpace}}
	p.variableHead(&d)
	p.declarator(&d)
	if !p.bad {
		p.declare(d.v.Name, symbol{kind: varSymbol, variable: &d.v, element: d.elementBytes(), pos: d.v.Pos})
	}
	return &d.v, NoReg
}

// performance parses the directives between header and body.
func (p *parser) performance(f *Func) {
	for p.at(token.Dot) && !p.bad {
		word := p.lex.Text
		p.next()
		switch word {
		case ".maxntid":
			f.MaxThreads = p.threads()
		case ".reqntid":
			f.RequiredThreads = p.threads()
		case ".minnctapersm":
			f.MinBlocks = uint32(p.constInt())
		case ".maxnreg":
			f.MaxRegisters = uint32(p.constInt())
		case ".maxnctapersm", ".maxclusterrank":
			p.constInt()
		case ".noreturn":
		case ".pragma":
			for p.accept(token.String) && p.accept(',') {
			}
			p.expect(';')
		default:
			p.errorf("directive '%s' is not supported", word)
		}
	}
}

// threads parses 1 to 3 block dimensions.
func (p *parser) threads() [3]uint32 {
	dims := [3]uint32{1, 1, 1}
	for i := range dims {
		pos := p.lex.Pos()
		n := p.constInt()
		if n <= 0 || n > 1<<31 {
			p.errorAt(pos, "bad block dimension %d", n)
		}
		dims[i] = uint32(n)
		if !p.accept(',') {
			break
		}
	}
	return dims
}

// body parses the braces of a function.
func (p *parser) body() {
	p.next()
	p.statements()
	p.pop()
	f := p.fn.f
	if n := len(p.fn.insts); n == 0 || !p.fn.insts[n-1].endsFlow() || p.labelAtEnd {
		// Add a return at the end of a body, so that executors need not check for the end.
		p.fn.insts = append(
			p.fn.insts,
			Inst{Op: OpRet, Guard: Guard{Reg: -1}, Addr: Address{Reg: NoReg}, Target: -1, Pos: p.lex.Pos()},
		)
	}
	f.Insts = slices.Clone(p.fn.insts)
	clear(p.fn.insts)
	p.insts = p.fn.insts
	p.expect('}')
	p.recover()
}

// endsFlow reports whether control never reaches the next instruction.
func (i *Inst) endsFlow() bool {
	switch i.Op {
	case OpRet, OpExit, OpBra, OpBrx, OpTrap:
		return i.Guard.Reg < 0
	}
	return false
}

// statements parses up to a closing brace, which is not consumed.
func (p *parser) statements() {
	for !p.at('}') && !p.at(token.EOF) {
		p.statement()
		p.recover()
	}
}

// statement parses one directive, label, scope or instruction of a body.
func (p *parser) statement() {
	switch p.lex.Kind {
	case token.Ident:
		p.labelOrInstruction()
	case '@':
		p.guarded()
	case token.Dot:
		p.bodyDirective()
	case '{':
		if !p.enter() {
			p.bad = false
			p.skipBraces()
			return
		}
		p.next()
		p.push()
		p.statements()
		p.pop()
		p.leave()
		p.expect('}')
	case ';':
		p.next()
	default:
		p.errorf("expected an instruction, found %s", p.found())
		p.next()
	}
}

// bodyDirective parses a directive inside a function.
func (p *parser) bodyDirective() {
	switch word := p.lex.Text; word {
	case ".reg":
		p.next()
		if p.at(token.Dot) && (p.lex.Text == ".v2" || p.lex.Text == ".v4") {
			p.errorf("vector registers ('.reg %s') are not supported", p.lex.Text)
			return
		}
		t := p.typeName()
		if t == B128 {
			p.errorf("registers of type .b128 are not supported")
			return
		}
		p.declareRegisters(t)
	case ".loc", ".file":
		p.skipLine()
	case ".pragma":
		p.pragma()
	case ".local", ".shared", ".param", ".global", ".const":
		p.variables(Internal)
	case ".extern", ".visible", ".weak", ".common":
		linkage := p.linkage()
		if p.variableSpace() == Generic {
			p.errorf("expected a state space, found %s", p.found())
			return
		}
		p.variables(linkage)
	default:
		p.errorf("directive '%s' is not supported", word)
	}
}

// alignUp rounds up to a power of two.
func alignUp(n, align uint64) uint64 { return (n + align - 1) &^ (align - 1) }

// place assigns v the next offset in a frame. It returns false if the frame grows too large.
func place(v *Var, frameBytes *uint64) bool {
	v.Offset = alignUp(*frameBytes, max(v.Align, 1))
	if v.Bytes > maxFrameBytes || v.Offset > maxFrameBytes {
		return false
	}
	*frameBytes = v.Offset + v.Bytes
	return *frameBytes <= maxFrameBytes
}

// addFrameVariable adds a variable declared in a function. Shared and local variables have separate
// offsets in the function's frame, whatever their scope. Call parameters live only as long as their
// scope, so their offsets are reused.
func (p *parser) addFrameVariable(d *declaration) {
	v, f := d.v, p.fn.f
	kept := &v
	if v.Space == Shared && v.Linkage == Extern {
		// Dynamic shared memory has no offset in a frame.
		f.Shared = append(f.Shared, kept)
		p.declare(v.Name, symbol{kind: varSymbol, variable: kept, element: d.elementBytes(), pos: v.Pos})
		return
	}
	var frame *uint64
	switch v.Space {
	case Shared:
		f.Shared, frame = append(f.Shared, kept), &f.SharedBytes
	case Local:
		f.Local, frame = append(f.Local, kept), &f.LocalBytes
	default:
		kept.CallParam = true
		f.CallParams, frame = append(f.CallParams, kept), &p.fn.callBytes
	}
	if !place(kept, frame) {
		p.errorAt(v.Pos, "'%s': more than %d bytes in one function", v.Name, maxFrameBytes)
	}
	f.CallParamBytes = max(f.CallParamBytes, p.fn.callBytes)
	p.declare(v.Name, symbol{kind: varSymbol, variable: kept, element: d.elementBytes(), pos: v.Pos})
}

// layoutParams assigns offsets to parameters, then return values, in a function's parameter block.
func (p *parser) layoutParams(f *Func) {
	f.ParamBytes = 0
	for _, list := range [][]*Var{f.Params, f.Returns} {
		for _, v := range list {
			if v.Space == ParamSpace && !place(v, &f.ParamBytes) {
				p.errorAt(v.Pos, "parameters of '%s': more than %d bytes", f.Name, maxFrameBytes)
			}
		}
	}
}
