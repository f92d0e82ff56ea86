package ptx

import (
	"math"
	"strconv"
	"strings"
)

// value is a constant: an integer of 64 bits, signed or not, or a float.
type value struct {
	float bool

	unsigned bool
	bits     uint64 // of the integer, or of the float64
}

func intValue(v int64) value { return value{bits: uint64(v)} }

func boolValue(b bool) value {
	if b {
		return intValue(1)
	}
	return intValue(0)
}

func (v value) float64() float64 { return math.Float64frombits(v.bits) }

// isTrue is the C rule.
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

// widen and narrow convert between the bits of float32 and float64 and keep the payload of a NaN, quiet or not, which
// the processor's own conversion would make quiet.
func widen(bits uint32) uint64 {
	if bits&0x7F800000 == 0x7F800000 {
		return uint64(bits>>31)<<63 | 0x7FF<<52 | uint64(bits&0x7FFFFF)<<29
	}
	return math.Float64bits(float64(math.Float32frombits(bits)))
}

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

// immediate converts a constant to the bits of a type, as Operand.Imm wants them. It says whether the type takes such a
// constant: floats want floats, integers integers, bits either.
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
