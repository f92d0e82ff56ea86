package ptx

import (
	"strconv"
	"strings"

	"github.com/phos-gpu/phos/internal/ptx/token"
)

// parseModule parses the whole text.
func (p *parser) parseModule() {
	p.next()
	p.version()
	for !p.at(token.EOF) {
		if p.at('{') || p.at('}') {
			p.errorf("unexpected %s", p.found())
			p.bad = false
			p.skipBraces()
			continue
		}
		p.moduleStatement()
		if p.bad {
			p.recover()
			if p.at('{') { // the body of a function with an error in its header
				p.skipBraces()
			}
		}
	}
}

// version parses the .version directive, which must come first.
func (p *parser) version() {
	if !p.acceptDot(".version") {
		p.errorf("expected '.version' first, found %s", p.found())
		p.recover()
		return
	}
	major, minor, ok := strings.Cut(p.lex.Text, ".")
	v, okMajor := parseInt(major)
	w, okMinor := parseInt(minor)
	if !ok || !okMajor || !okMinor || v.bits > 99 || w.bits > 99 {
		p.errorf("%s is not a PTX version", p.found())
	}
	p.module.Version = Version{int(v.bits), int(w.bits)}
	p.next()
	p.recover()
}

// moduleStatement parses one directive outside functions.
func (p *parser) moduleStatement() {
	pos := p.lex.Pos()
	linkage := p.linkage()
	switch word := p.lex.Text; {
	case p.accept(';'):
	case p.lex.Kind == '@': // @@DWARF lines
		p.skipLine()
	case p.lex.Kind != token.Dot:
		p.errorf("expected a directive, found %s", p.found())
		p.next()
	case word == ".entry" || word == ".func":
		p.next()
		p.function(word == ".entry", linkage, pos)
	case p.variableSpace() != Generic:
		p.variables(linkage)
	case linkage != Internal:
		p.errorf("%s cannot have a linkage", p.found())
	case !p.moduleSetting(word):
		p.errorf("directive '%s' is not supported", word)
		p.next()
	}
}

// moduleSetting parses directives that declare nothing; it returns false for other words.
func (p *parser) moduleSetting(word string) bool {
	switch word {
	case ".target":
		p.next()
		p.target()
	case ".address_size":
		p.next()
		pos := p.lex.Pos()
		if n := p.constInt(); n != 64 {
			p.errorAt(pos, "address size %d is not supported, only 64", n)
		}
	case ".file", ".loc":
		p.skipLine()
	case ".section":
		for !p.at('{') && !p.at(token.EOF) {
			p.next()
		}
		p.skipBraces()
	case ".pragma":
		p.pragma()
	default:
		return false
	}
	return true
}

// target parses the architecture and checks the options.
func (p *parser) target() {
	for !p.bad {
		name, pos := p.name()
		switch {
		case strings.HasPrefix(name, "sm_") || strings.HasPrefix(name, "compute_"):
			p.module.Target = name
		case name == "map_f64_to_f32":
			p.errorAt(pos, "target option '%s' is not supported", name)
		}
		if !p.accept(',') {
			return
		}
	}
}

// pragma skips hints.
func (p *parser) pragma() {
	p.next()
	for p.at(token.String) && !p.bad {
		if limit, ok := strings.CutPrefix(strings.Trim(p.lex.Text, `"`), "phos_maxnreg "); ok && p.fn == nil {
			n, _ := strconv.ParseUint(limit, 10, 16)
			p.module.MaxRegisters = uint32(n)
		}
		p.next()
		if !p.accept(',') {
			break
		}
	}
	p.expect(';')
}

// linkage parses the linkage words before a declaration.
func (p *parser) linkage() Linkage {
	linkage := Internal
	for p.at(token.Dot) {
		switch p.lex.Text {
		case ".visible":
			linkage = Visible
		case ".extern":
			linkage = Extern
		case ".weak":
			linkage = Weak
		case ".common":
			linkage = Common
		default:
			return linkage
		}
		p.next()
	}
	return linkage
}

// variableSpace returns the state space of a variable directive, or Generic for other directives.
func (p *parser) variableSpace() Space {
	switch p.lex.Text {
	case ".global":
		return Global
	case ".shared":
		return Shared
	case ".const":
		return Const
	case ".local":
		return Local
	case ".param":
		return ParamSpace
	}
	return Generic
}

// declaration is the state of a variable declaration being parsed.
type declaration struct {
	v       Var
	element Type
	vector  uint64
	dims    []uint64
	open    bool // the first dimension is [], and its size follows from the initializer
}

// variables parses `.global .align 4 .b32 a[4] = {...}, b;` after the linkage.
func (p *parser) variables(linkage Linkage) {
	space := p.variableSpace()
	p.next()
	var head declaration
	head.v.Space, head.v.Linkage = space, linkage
	p.variableHead(&head)
	for !p.bad {
		d := head
		p.declarator(&d)
		if p.accept('=') {
			p.initialiser(&d)
		}
		if !p.bad {
			p.addVariable(&d)
		}
		if !p.accept(',') {
			break
		}
	}
	p.expect(';')
}

// variableHead parses what is between space and name: alignment, attributes, vector and type.
func (p *parser) variableHead(d *declaration) {
	d.vector = 1
	pointee := false // what follows .ptr describes the target of the pointer
	for p.at(token.Dot) && !p.bad {
		switch word := p.lex.Text; word {
		case ".align":
			p.next()
			pos := p.lex.Pos()
			align := p.constInt()
			if pointee {
				continue
			}
			if align <= 0 || align&(align-1) != 0 || align > 1<<20 {
				p.errorAt(pos, "alignment %d is not a power of two", align)
			}
			d.v.Align = uint64(align)
		case ".attribute":
			p.attribute(d)
		case ".v2", ".v4":
			d.vector = uint64(word[2] - '0')
			p.next()
		case ".ptr":
			pointee = true
			p.next()
		case ".global", ".const", ".local", ".shared", ".volatile":
			p.next()
		default:
			if t, ok := typesByName[word[1:]]; ok && d.element != NoType {
				p.errorf("unexpected second type '.%s'", t)
			}
			d.element = p.typeName()
		}
	}
	if d.element == NoType {
		p.errorf("expected a type, found %s", p.found())
	} else if d.element == PredType {
		p.errorf("a predicate cannot be in memory")
	}
}

// attribute parses .attribute(.managed).
func (p *parser) attribute(d *declaration) {
	p.next()
	p.expect('(')
	if !p.acceptDot(".managed") {
		p.errorf("attribute %s is not supported", p.found())
	}
	d.v.Managed = true
	p.expect(')')
}

// typeName parses a type directive.
func (p *parser) typeName() Type {
	t, ok := NoType, false
	if p.at(token.Dot) {
		t, ok = typesByName[p.lex.Text[1:]]
	}
	if !ok || t >= TF32 { // these are interpretations of 16 or 32 bits, not types of variables
		p.errorf("expected a type, found %s", p.found())
		return NoType
	}
	p.next()
	return t
}

// declarator parses name[dims].
func (p *parser) declarator(d *declaration) {
	d.v.Name, d.v.Pos = p.name()
	d.dims = nil
	for p.accept('[') {
		if p.accept(']') {
			if len(d.dims) > 0 {
				p.errorf("only the first dimension may be empty")
			}
			d.open = true
			d.dims = append(d.dims, 0)
			continue
		}
		pos := p.lex.Pos()
		n := p.constInt()
		if n < 0 || n > maxArrayBytes || len(d.dims) >= 16 {
			p.errorAt(pos, "bad dimension %d", n)
		}
		d.dims = append(d.dims, uint64(n))
		p.expect(']')
	}
	p.size(d)
}

// elementBytes returns the unit of an index into the variable.
func (d *declaration) elementBytes() uint64 { return d.element.Bytes() * d.vector }

// size computes the bytes of a declaration from its dimensions.
func (p *parser) size(d *declaration) {
	bytes := d.elementBytes()
	if d.v.Align == 0 {
		d.v.Align = max(bytes, 1)
	}
	for i, n := range d.dims {
		if d.open && i == 0 {
			continue
		}
		if n != 0 && bytes > maxArrayBytes/n {
			p.errorAt(d.v.Pos, "'%s' is too large", d.v.Name)
			return
		}
		bytes *= n
	}
	if !d.open {
		d.v.Bytes = bytes
	}
}

// addVariable adds a variable to the module or function.
func (p *parser) addVariable(d *declaration) {
	v := &d.v
	incomplete := d.open && d.v.Init == nil
	switch {
	case incomplete && v.Linkage != Extern:
		p.errorAt(v.Pos, "'%s' needs a size", v.Name)
	case d.v.Init != nil && (v.Space != Global && v.Space != Const || v.Linkage == Extern):
		p.errorAt(v.Pos, "'%s' cannot have an initial value", v.Name)
	case p.fn == nil && (v.Space == Local || v.Space == ParamSpace):
		p.errorAt(v.Pos, "'%s': .local and .param variables belong in a function", v.Name)
	case p.fn != nil && v.Space != Global && v.Space != Const:
		p.addFrameVariable(d)
	default:
		p.addGlobal(d)
	}
}

// addGlobal adds a variable to the module. A definition completes an .extern declaration, or
// repeats a weak one.
func (p *parser) addGlobal(d *declaration) {
	v := d.v
	s, seen := p.scope.find(v.Name)
	if !seen || s.kind != varSymbol || !s.undefined && v.Linkage != Extern {
		kept := &v
		p.declare(
			v.Name,
			symbol{
				kind:      varSymbol,
				variable:  kept,
				element:   d.elementBytes(),
				undefined: v.Linkage == Extern,
				pos:       v.Pos,
			},
		)
		p.module.Globals = append(p.module.Globals, kept)
		return
	}
	if s.variable.Space != v.Space || s.variable.Bytes != v.Bytes && s.variable.Bytes != 0 && v.Bytes != 0 {
		p.errorAt(v.Pos, "'%s' differs from its declaration at %s", v.Name, s.pos)
		return
	}
	if v.Linkage != Extern {
		*s.variable = v
		s.undefined = false
		p.scope.names[v.Name] = s
	}
}
