package arith

import (
	"math"

	"github.com/phos-gpu/phos/internal/ptx"
)

// odd rounds the exact sum value+rest to odd: if it is inexact, the last bit is set. value is the
// nearest float64. Rounding the result to a format of at most 50 bits gives the same as rounding
// the exact sum.
func odd(value, rest float64) float64 {
	if rest == 0 || value == 0 || math.IsInf(value, 0) || rest != rest {
		return value
	}
	bits := math.Float64bits(value)
	if bits&1 == 1 {
		return value
	}
	if (rest > 0) == (value > 0) {
		return math.Float64frombits(bits + 1)
	}
	return math.Float64frombits(bits - 1)
}

// twoSum returns the rounding error of sum = a + b.
func twoSum(a, b, sum float64) float64 {
	virtual := sum - a
	return (a - (sum - virtual)) + (b - virtual)
}

// addOdd returns a+b rounded to odd.
func addOdd(a, b float64) float64 {
	sum := a + b
	return odd(sum, twoSum(a, b, sum))
}

// divOdd returns a/b rounded to odd, for operands from narrower formats.
func divOdd(a, b float64) float64 {
	q := a / b
	if q == 0 || math.IsInf(q, 0) || q != q || math.IsInf(b, 0) {
		return q
	}
	rest := math.FMA(-q, b, a)
	if b < 0 {
		rest = -rest
	}
	return odd(q, rest)
}

// sqrtOdd returns the square root rounded to odd, for an operand from a narrower format.
func sqrtOdd(a float64) float64 {
	s := math.Sqrt(a)
	if s == 0 || math.IsInf(s, 0) || s != s {
		return s
	}
	return odd(s, math.FMA(-s, s, a))
}

// format is a narrow binary floating point format.
type format struct {
	mantissa int // stored bits
	exponent int // stored bits
	nan      uint64
}

var (
	half   = format{10, 5, 0x7fff}
	bfloat = format{7, 8, 0x7fff}
	single = format{23, 8, 0x7fffffff}
)

func (f format) bias() int { return 1<<(f.exponent-1) - 1 }

// round rounds a float64 to the format and returns its bits. RN rounds to nearest, ties to even.
func (f format) round(x float64, mode ptx.Round) uint64 {
	bits := math.Float64bits(x)
	sign := bits >> 63 << (f.mantissa + f.exponent)
	infinity := uint64(1<<f.exponent-1) << f.mantissa
	switch {
	case x != x:
		return f.nan
	case math.IsInf(x, 0):
		return sign | infinity
	case x == 0:
		return sign
	}
	fraction, exp := math.Frexp(math.Abs(x)) // x = fraction * 2^exp, fraction in [0.5, 1)
	significand := uint64(fraction * (1 << 53))
	biased := exp - 1 + f.bias()
	drop := 52 - f.mantissa
	if biased <= 0 { // subnormal: fewer bits are kept
		drop += 1 - biased
		biased = 0
	}
	kept := roundOff(significand, drop, sign != 0, mode)
	// A normal number's hidden bit is part of kept, so adding it increments the exponent if needed.
	result := kept
	if biased > 0 {
		result = kept + uint64(biased-1)<<f.mantissa
	}
	if result >= infinity {
		result = infinity
		if mode == ptx.RZ || mode == ptx.RM && sign == 0 || mode == ptx.RP && sign != 0 {
			result = infinity - 1
		}
	}
	return sign | result
}

// roundOff drops low bits of a magnitude and rounds the rest.
func roundOff(significand uint64, drop int, negative bool, mode ptx.Round) uint64 {
	if drop >= 64 { // all bits are dropped, and they are less than half of the last bit
		if mode == ptx.RM && negative || mode == ptx.RP && !negative {
			return 1
		}
		return 0
	}
	kept, lost := significand>>drop, significand&(1<<drop-1)
	middle := uint64(1) << drop >> 1
	if lost == 0 {
		return kept
	}
	up := lost > middle || lost == middle && kept&1 == 1
	switch mode {
	case ptx.RZ:
		up = false
	case ptx.RM:
		up = negative
	case ptx.RP:
		up = !negative
	case ptx.RNA:
		up = lost >= middle
	}
	if up {
		kept++
	}
	return kept
}

// value returns the exact value of the format's bits.
func (f format) value(bits uint64) float64 {
	sign := bits >> (f.mantissa + f.exponent) & 1
	exp := int(bits>>f.mantissa) & (1<<f.exponent - 1)
	fraction := bits & (1<<f.mantissa - 1)
	var x float64
	switch {
	case exp == 1<<f.exponent-1 && fraction != 0:
		return math.NaN()
	case exp == 1<<f.exponent-1:
		x = math.Inf(1)
	case exp == 0:
		x = math.Ldexp(float64(fraction), 1-f.bias()-f.mantissa)
	default:
		x = math.Ldexp(float64(fraction|1<<f.mantissa), exp-f.bias()-f.mantissa)
	}
	if sign == 1 {
		return -x
	}
	return x
}

// round32 rounds a float64, exact or rounded to odd, to float32.
func round32(x float64, mode ptx.Round) float32 {
	switch mode {
	case ptx.RZ, ptx.RM, ptx.RP:
		return math.Float32frombits(uint32(single.round(x, mode)))
	}
	return float32(x)
}

// Canonical32 returns the bits of a float32 result, with the NaN that hardware produces.
func Canonical32(x float32) uint64 {
	if x != x {
		return 0x7fffffff
	}
	return uint64(math.Float32bits(x))
}

// flush32 replaces a subnormal by a zero of the same sign.
func flush32(x float32) float32 {
	if bits := math.Float32bits(x); bits&0x7f800000 == 0 {
		return math.Float32frombits(bits & 0x80000000)
	}
	return x
}

func f32(bits uint64) float32 { return math.Float32frombits(uint32(bits)) }
func f64(bits uint64) float64 { return math.Float64frombits(bits) }

// clamp01 implements .sat.
func clamp01(x float64) float64 {
	switch {
	case !(x > 0): // also true for NaN, which becomes +0
		return 0
	case x > 1:
		return 1
	}
	return x
}

// HalfValue returns the value of a float16.
func HalfValue(bits uint64) float64 { return half.value(bits) }

// RoundHalf rounds to float16, to nearest.
func RoundHalf(x float64) uint64 { return half.round(x, ptx.RN) }
