package ptx

import (
	"encoding/binary"

	"github.com/phos-gpu/phos/internal/ptx/token"
)

// initialiser parses the value of a variable into d.v.Init.
func (p *parser) initialiser(d *declaration) {
	in := initial{declaration: d, width: d.element.Bytes()}
	if d.open {
		// The number of rows determines the size.
		in.limit = maxArrayBytes
	} else {
		in.limit = d.v.Bytes
		if !p.takeInit(d.v.Bytes, d.v.Pos) {
			return
		}
		in.data = make([]byte, 0, d.v.Bytes)
	}
	if len(d.dims) == 0 && d.vector == 1 {
		p.initElement(&in)
	} else {
		p.initList(&in, 0)
	}
	if p.bad {
		return
	}
	if d.open {
		d.v.Bytes = uint64(len(in.data))
	}
	d.v.Init = append(in.data, make([]byte, d.v.Bytes-uint64(len(in.data)))...)
	d.v.Relocs = in.relocs
}

// takeInit limits the sum of all initializers.
func (p *parser) takeInit(bytes uint64, pos Pos) bool {
	if bytes > p.initLeft {
		p.errorAt(pos, "initial values are too large")
		return false
	}
	p.initLeft -= bytes
	return true
}

// initial is the state of an initializer being parsed.
type initial struct {
	*declaration
	width  uint64 // bytes of an element
	limit  uint64
	data   []byte
	relocs []Relocation
}

// row returns the number of bytes of one element at a nesting level.
func (in *initial) row(level int) uint64 {
	bytes := in.width
	if level < len(in.dims) {
		bytes *= in.vector
	}
	for i := level + 1; i < len(in.dims); i++ {
		bytes *= in.dims[i]
	}
	return bytes
}

// initList parses { ... } of one dimension; missing elements at the end of a row are zero.
func (p *parser) initList(in *initial, level int) {
	if !p.at('{') {
		p.errorf("expected '{', found %s", p.found())
		return
	}
	if !p.enter() {
		return
	}
	defer p.leave()
	p.next()
	p.braces++
	row := in.row(level)
	for !p.at('}') && !p.bad {
		start := uint64(len(in.data))
		if p.at('{') {
			if level+1 >= len(in.dims)+min(int(in.vector)-1, 1) {
				p.errorf("too many braces for '%s'", in.v.Name)
				return
			}
			p.initList(in, level+1)
			if uint64(len(in.data)) > start+row {
				p.errorf("too many values for a row of '%s'", in.v.Name)
			}
			p.pad(in, start+row)
		} else {
			p.initElement(in)
		}
		if !p.accept(',') {
			break
		}
	}
	p.closeBrace()
}

// pad fills up with zeros.
func (p *parser) pad(in *initial, end uint64) {
	n := uint64(len(in.data))
	if p.bad || end <= n || end > in.limit {
		return
	}
	if in.open && !p.takeInit(end-n, in.v.Pos) {
		return
	}
	in.data = append(in.data, make([]byte, end-n)...)
}

// initElement parses one value: a constant, symbol+offset or generic(symbol)+offset.
func (p *parser) initElement(in *initial) {
	pos := p.lex.Pos()
	if uint64(len(in.data))+in.width > in.limit {
		p.errorAt(pos, "too many values for '%s'", in.v.Name)
		return
	}
	if in.open && !p.takeInit(in.width, pos) {
		return
	}
	var bits uint64
	if p.at(token.Ident) && p.lex.Text != "WARP_SZ" {
		p.initSymbol(in)
	} else {
		v := p.constExpr()
		if p.at('(') {
			p.errorAt(pos, "mask operators on addresses are not supported")
			return
		}
		var ok bool
		if bits, ok = v.immediate(in.element); !ok && !p.bad {
			p.errorAt(pos, "constant does not fit type .%s", in.element)
			return
		}
	}
	var word [8]byte
	binary.LittleEndian.PutUint64(word[:], bits)
	in.data = append(in.data, word[:in.width]...)
}

// initSymbol parses the address of a symbol as an initial value.
func (p *parser) initSymbol(in *initial) {
	r := Relocation{Offset: uint64(len(in.data)), Bytes: uint8(in.width)}
	name, pos := p.name()
	if name == "generic" && p.accept('(') {
		r.Generic = true
		name, pos = p.name()
		p.expect(')')
	}
	if p.bad {
		return
	}
	s, ok := p.lookup(name)
	switch {
	case !ok:
		p.errorAt(pos, "undeclared name '%s'", name)
	case s.kind == varSymbol:
		r.Symbol = s.variable
	case s.kind == funcSymbol:
		r.Func = s.fn
	default:
		p.errorAt(pos, "'%s' has no address", name)
	}
	if types[in.element].family == familyFloat || in.width < 4 {
		p.errorAt(pos, "an address does not fit type .%s", in.element)
	}
	r.Addend = p.symbolOffset()
	in.relocs = append(in.relocs, r)
}

// symbolOffset parses one or more +n or -n after a symbol or register.
func (p *parser) symbolOffset() (offset int64) {
	for !p.bad {
		negative := p.at('-')
		if !negative && !p.at('+') {
			return offset
		}
		p.next()
		v := p.binary(power["*"])
		if v.float {
			p.errorf("expected an integer offset")
		}
		if negative {
			v.bits = -v.bits
		}
		offset += int64(v.bits)
	}
	return offset
}
