package ptx

import (
	"math"
	"strconv"
	"strings"

	"github.com/phos-gpu/phos/internal/ptx/token"
)

// value is a constant: an integer of 64 bits, signed or not, or a float.
type value struct {
	float bool

	unsigned bool
	bits     uint64 // of the integer, or of the float64
}

func intValue(v int64) value { return value{bits: uint64(v)} }

// boolValue returns the integer 1 for true and 0 for false, as in C.
func boolValue(b bool) value {
	if b {
		return intValue(1)
	}
	return intValue(0)
}

func (v value) float64() float64 { return math.Float64frombits(v.bits) }

// isTrue reports whether the value is not zero, as in C.
func (v value) isTrue() bool {
	if v.float {
		return v.float64() != 0
	}
	return v.bits != 0
}

// parseInt reads a PTX integer literal.
func parseInt(text string) (value, bool) {
	digits := text
	var unsigned bool
	if n := len(digits) - 1; n > 0 && digits[n]|0x20 == 'u' {
		digits, unsigned = digits[:n], true
	}
	base := 10
	switch {
	case len(digits) > 2 && digits[0] == '0' && digits[1]|0x20 == 'x':
		base, digits = 16, digits[2:]
	case len(digits) > 2 && digits[0] == '0' && digits[1]|0x20 == 'b':
		base, digits = 2, digits[2:]
	case len(digits) > 1 && digits[0] == '0':
		base, digits = 8, digits[1:]
	}
	bits, err := strconv.ParseUint(digits, base, 64)
	if err != nil {
		return value{}, false
	}
	// A literal too large for a signed integer is unsigned, as in C.
	return value{bits: bits, unsigned: unsigned || bits > math.MaxInt64}, true
}

// parseFloat reads a PTX float literal: decimal, 0f with 8 digits or 0d with 16.
func parseFloat(text string) (value, bool) {
	if len(text) > 2 && text[0] == '0' && strings.IndexByte("fFdD", text[1]) >= 0 {
		single := text[1]|0x20 == 'f'
		digits := 16
		if single {
			digits = 8
		}
		bits, err := strconv.ParseUint(text[2:], 16, 64)
		if err != nil || len(text)-2 != digits {
			return value{}, false
		}
		if single {
			return value{float: true, bits: widen(uint32(bits))}, true
		}
		return value{float: true, bits: bits}, true
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil && !math.IsInf(f, 0) || strings.ContainsAny(text, "xX_pPnN") {
		return value{}, false
	}
	return value{float: true, bits: math.Float64bits(f)}, true
}

// widen and narrow convert between the bits of float32 and float64. They keep signalling NaNs,
// which the CPU's conversion would make quiet.
func widen(bits uint32) uint64 {
	if bits&0x7F800000 == 0x7F800000 {
		return uint64(bits>>31)<<63 | 0x7FF<<52 | uint64(bits&0x7FFFFF)<<29
	}
	return math.Float64bits(float64(math.Float32frombits(bits)))
}

// narrow is the reverse of widen. It rounds to nearest, and no NaN becomes infinity.
func narrow(bits uint64) uint32 {
	if exponent := bits >> 52 & 0x7FF; exponent == 0x7FF {
		mantissa := uint32(bits >> 29 & 0x7FFFFF)
		if bits<<12 != 0 && mantissa == 0 {
			mantissa = 1 << 22
		}
		return uint32(bits>>63)<<31 | 0x7F800000 | mantissa
	}
	return math.Float32bits(float32(math.Float64frombits(bits)))
}

// immediate converts a constant to the bits of a type, as in Operand.Imm. It reports whether the
// type accepts the constant: floats need floats, integers need integers, untyped bits accept both.
func (v value) immediate(t Type) (uint64, bool) {
	switch {
	case t == F32:
		return uint64(narrow(v.bits)), v.float
	case t == F64:
		return v.bits, v.float
	case t == PredType:
		return v.bits & 1, !v.float
	case t.IsFloat(), t == B128:
		return 0, false
	case v.float && t == B32:
		return uint64(narrow(v.bits)), true
	case v.float:
		return v.bits, t == B64
	}
	bits := v.bits
	width := t.Bits()
	if t.IsSigned() {
		return uint64(int64(bits) << (64 - width) >> (64 - width)), true
	}
	return bits << (64 - width) >> (64 - width), true
}

func floatValue(f float64) value { return value{float: true, bits: math.Float64bits(f)} }

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
	pos := p.lex.Pos()
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
		op := p.lex.Text
		strength := power[op]
		if strength == 0 || strength < min || p.at(token.String) {
			break
		}
		pos := p.lex.Pos()
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
	switch p.lex.Kind {
	case '+':
		p.next()
		return p.unary()
	case '-', '~', '!':
		op, pos := p.lex.Kind, p.lex.Pos()
		p.next()
		return p.applyUnary(op, p.unary(), pos)
	case '(':
		p.next()
		if p.at(token.Dot) { // a cast, (.u64) or (.s64)
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

// literal parses an integer or float literal.
func (p *parser) literal() value {
	v, ok := value{}, false
	switch p.lex.Kind {
	case token.Int:
		v, ok = parseInt(p.lex.Text)
	case token.Float:
		v, ok = parseFloat(p.lex.Text)
	case token.Ident:
		v, ok = intValue(32), p.lex.Text == "WARP_SZ"
	default:
		p.errorf("expected a constant, found %s", p.found())
	}
	if !ok {
		p.errorf("%s is not a constant", p.found())
	}
	p.next()
	return v
}

// applyUnary computes a unary operator.
func (p *parser) applyUnary(op token.Kind, v value, pos Pos) value {
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

// divide computes / and % on integers.
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

// applyFloat computes a binary operator on floats.
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
