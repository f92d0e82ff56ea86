package ptx

// binding powers of binary operators, as in C.
var power = map[string]int{
	"*": 10, "/": 10, "%": 10, "+": 9, "-": 9, "<<": 8, ">>": 8, "<": 7, ">": 7, "<=": 7, ">=": 7,
	"==": 6, "!=": 6, "&": 5, "^": 4, "|": 3, "&&": 2, "||": 1,
}

// constExpr parses a constant expression.
func (p *parser) constExpr() value {
	if !p.enter() {
		return value{}
	}
	defer p.leave()
	v := p.binary(1)
	if p.accept('?') {
		yes := p.constExpr()
		p.expect(':')
		no := p.constExpr()
		if v.isTrue() {
			return yes
		}
		return no
	}
	return v
}

// constInt parses a constant expression that must be an integer.
func (p *parser) constInt() int64 {
	pos := p.lex.pos()
	v := p.constExpr()
	if v.float {
		p.errorAt(pos, "expected an integer")
	}
	return int64(v.bits)
}

// binary parses operators that bind at least as strongly as min.
func (p *parser) binary(min int) value {
	left := p.unary()
	for !p.bad {
		op := p.lex.text
		strength := power[op]
		if strength == 0 || strength < min || p.at(tokenString) {
			break
		}
		pos := p.lex.pos()
		p.next()
		left = p.apply(op, left, p.binary(strength+1), pos)
	}
	return left
}

// unary parses signs, casts, parentheses, literals and WARP_SZ.
func (p *parser) unary() value {
	if !p.enter() {
		return value{}
	}
	defer p.leave()
	switch p.lex.kind {
	case '+':
		p.next()
		return p.unary()
	case '-', '~', '!':
		op, pos := p.lex.kind, p.lex.pos()
		p.next()
		return p.applyUnary(op, p.unary(), pos)
	case '(':
		p.next()
		if p.at(tokenDot) { // a cast, (.u64) or (.s64)
			t := p.typeName()
			p.expect(')')
			v := p.unary()
			v.unsigned = !t.IsSigned()
			return v
		}
		v := p.constExpr()
		p.expect(')')
		return v
	}
	return p.literal()
}

func (p *parser) literal() value {
	v, ok := value{}, false
	switch p.lex.kind {
	case tokenInt:
		v, ok = parseInt(p.lex.text)
	case tokenFloat:
		v, ok = parseFloat(p.lex.text)
	case tokenIdent:
		v, ok = intValue(32), p.lex.text == "WARP_SZ"
	default:
		p.errorf("expected a constant, found %s", p.found())
	}
	if !ok {
		p.errorf("%s is not a constant", p.found())
	}
	p.next()
	return v
}

func (p *parser) applyUnary(op tokenKind, v value, pos Pos) value {
	switch {
	case op == '!':
		return boolValue(!v.isTrue())
	case op == '-' && v.float:
		v.bits ^= 1 << 63
	case op == '-':
		v.bits = -v.bits
	case v.float:
		p.errorAt(pos, "'~' of a float")
	default:
		v.bits = ^v.bits
	}
	return v
}

// apply computes a binary operator by the rules of C, with 64-bit integers.
func (p *parser) apply(op string, a, b value, pos Pos) value {
	if a.float || b.float {
		if !a.float || !b.float {
			p.errorAt(pos, "'%s' of an integer and a float", op)
			return value{}
		}
		return p.applyFloat(op, a, b, pos)
	}
	v := value{unsigned: a.unsigned || b.unsigned}
	less := int64(a.bits) < int64(b.bits)
	if v.unsigned {
		less = a.bits < b.bits
	}
	switch op {
	case "+":
		v.bits = a.bits + b.bits
	case "-":
		v.bits = a.bits - b.bits
	case "*":
		v.bits = a.bits * b.bits
	case "/", "%":
		return p.divide(op, a, b, pos)
	case "<<":
		v.bits, v.unsigned = a.bits<<b.bits, a.unsigned
	case ">>":
		if v.unsigned = a.unsigned; v.unsigned {
			v.bits = a.bits >> b.bits
		} else {
			v.bits = uint64(int64(a.bits) >> b.bits)
		}
	case "&":
		v.bits = a.bits & b.bits
	case "^":
		v.bits = a.bits ^ b.bits
	case "|":
		v.bits = a.bits | b.bits
	case "<":
		return boolValue(less)
	case ">=":
		return boolValue(!less)
	case ">":
		return boolValue(!less && a.bits != b.bits)
	case "<=":
		return boolValue(less || a.bits == b.bits)
	case "==":
		return boolValue(a.bits == b.bits)
	case "!=":
		return boolValue(a.bits != b.bits)
	case "&&":
		return boolValue(a.isTrue() && b.isTrue())
	case "||":
		return boolValue(a.isTrue() || b.isTrue())
	}
	return v
}

func (p *parser) divide(op string, a, b value, pos Pos) value {
	v := value{unsigned: a.unsigned || b.unsigned}
	switch {
	case b.bits == 0:
		p.errorAt(pos, "division by zero")
	case op == "/" && v.unsigned:
		v.bits = a.bits / b.bits
	case op == "/":
		v.bits = uint64(int64(a.bits) / int64(b.bits))
	case v.unsigned:
		v.bits = a.bits % b.bits
	default:
		v.bits = uint64(int64(a.bits) % int64(b.bits))
	}
	return v
}

func (p *parser) applyFloat(op string, a, b value, pos Pos) value {
	x, y := a.float64(), b.float64()
	switch op {
	case "+":
		return floatValue(x + y)
	case "-":
		return floatValue(x - y)
	case "*":
		return floatValue(x * y)
	case "/":
		return floatValue(x / y)
	case "<":
		return boolValue(x < y)
	case "<=":
		return boolValue(x <= y)
	case ">":
		return boolValue(x > y)
	case ">=":
		return boolValue(x >= y)
	case "==":
		return boolValue(x == y)
	case "!=":
		return boolValue(x != y)
	}
	p.errorAt(pos, "'%s' of floats", op)
	return value{}
}
