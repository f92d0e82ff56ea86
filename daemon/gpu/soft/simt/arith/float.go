package arith

import (
	"math"

	"github.com/phos-gpu/phos/internal/ptx"
)

// exactOp is an operation on the float64 values of narrower operands. Its result is exact or
// rounded to odd.
type exactOp func(a, b, c float64) float64

func exactAdd(a, b, _ float64) float64  { return addOdd(a, b) }
func exactSub(a, b, _ float64) float64  { return addOdd(a, -b) }
func exactMul(a, b, _ float64) float64  { return a * b }
func exactFma(a, b, c float64) float64  { return addOdd(a*b, c) }
func exactDiv(a, b, _ float64) float64  { return divOdd(a, b) }
func exactSqrt(a, _, _ float64) float64 { return sqrtOdd(a) }
func exactRcp(a, _, _ float64) float64  { return divOdd(1, a) }

// sumDown is addOdd for rounding down: an exact zero sum is negative unless both terms are +0.
func sumDown(a, b float64) float64 {
	sum := addOdd(a, b)
	if sum == 0 && (math.Signbit(a) || math.Signbit(b)) {
		return math.Copysign(0, -1)
	}
	return sum
}

func exactAddDown(a, b, _ float64) float64 { return sumDown(a, b) }
func exactSubDown(a, b, _ float64) float64 { return sumDown(a, -b) }
func exactFmaDown(a, b, c float64) float64 { return sumDown(a*b, c) }

// f32Op returns a float32 operation with its modifiers.
func f32Op(op exactOp, in *ptx.Inst) Func {
	mode, ftz, sat := in.Round, in.Flags&ptx.FTZ != 0, in.Flags&ptx.Sat != 0
	return func(a, b, c, _ uint64) uint64 {
		x, y, z := f32(a), f32(b), f32(c)
		if ftz {
			x, y, z = flush32(x), flush32(y), flush32(z)
		}
		return finish32(round32(op(float64(x), float64(y), float64(z)), mode), ftz, sat)
	}
}

// finish32 applies .ftz and .sat to a float32 result.
func finish32(result float32, ftz, sat bool) uint64 {
	if ftz {
		result = flush32(result)
	}
	if sat {
		result = float32(clamp01(float64(result)))
	}
	return Canonical32(result)
}

// narrowOp returns an operation in float16 or bfloat16 precision.
func narrowOp(f format, op exactOp, in *ptx.Inst) Func {
	ftz, sat, positive := in.Flags&ptx.FTZ != 0, in.Flags&ptx.Sat != 0, in.Flags&ptx.Relu != 0
	return func(a, b, c, _ uint64) uint64 {
		x, y, z := f.value(a), f.value(b), f.value(c)
		if ftz {
			x, y, z = f.flush(x), f.flush(y), f.flush(z)
		}
		result := op(x, y, z)
		if sat {
			result = clamp01(result)
		}
		if positive && !(result > 0) && result == result {
			result = 0
		}
		bits := f.round(result, ptx.RN)
		if ftz {
			bits = f.round(f.flush(f.value(bits)), ptx.RN)
		}
		return bits
	}
}

// flush replaces subnormal values by zeroes of the same sign.
func (f format) flush(x float64) float64 {
	if math.Abs(x) < math.Ldexp(1, 1-f.bias()) {
		return math.Copysign(0, x)
	}
	return x
}

// f64Op returns a float64 operation. op does the rounding itself.
func f64Op(in *ptx.Inst, op func(a, b, c float64, mode ptx.Round) float64) Func {
	mode, sat := in.Round, in.Flags&ptx.Sat != 0
	return func(a, b, c, _ uint64) uint64 {
		result := op(f64(a), f64(b), f64(c), mode)
		if sat {
			result = clamp01(result)
		}
		return math.Float64bits(result)
	}
}

// floatBits returns the mask of the sign bit of a floating type.
func floatBits(t ptx.Type) (sign uint64) {
	switch t {
	case ptx.F16, ptx.BF16:
		return 1 << 15
	case ptx.F16X2, ptx.BF16X2:
		return 1<<15 | 1<<31
	case ptx.F32:
		return 1 << 31
	}
	return 1 << 63
}

// signOp implements operations on the sign: neg, abs and copysign.
func signOp(in *ptx.Inst) Func {
	sign := floatBits(in.Type)
	flush := func(a uint64) uint64 { return a }
	if in.Flags&ptx.FTZ != 0 {
		flush = flusher(in.Type)
	}
	switch in.Op {
	case ptx.OpNeg:
		return func(a, _, _, _ uint64) uint64 { return flush(a) ^ sign }
	case ptx.OpAbs:
		return func(a, _, _, _ uint64) uint64 { return flush(a) &^ sign }
	}
	return func(a, b, _, _ uint64) uint64 { return b&^sign | a&sign }
}

// flusher returns the function that flushes subnormal operands of a type.
func flusher(t ptx.Type) func(uint64) uint64 {
	switch t {
	case ptx.F32:
		return func(a uint64) uint64 { return uint64(math.Float32bits(flush32(f32(a)))) }
	case ptx.F16:
		return half.flushBits
	case ptx.BF16:
		return bfloat.flushBits
	case ptx.F16X2:
		return func(a uint64) uint64 { return half.flushBits(a&0xffff) | half.flushBits(a>>16&0xffff)<<16 }
	}
	return func(a uint64) uint64 { return a }
}

// flushBits is flush on bits.
func (f format) flushBits(a uint64) uint64 {
	if a>>f.mantissa&(1<<f.exponent-1) == 0 {
		return a & (1 << (f.mantissa + f.exponent))
	}
	return a
}

// minMax orders floats as the ISA does: -0 is below +0. A number wins over a NaN unless .NaN is
// set.
func minMax(in *ptx.Inst, value func(uint64) float64, nan uint64) Func {
	sign := floatBits(in.Type)
	wantNaN, xorSign, smallest := in.Flags&ptx.NaN != 0, in.Flags&ptx.XorSign != 0, in.Op == ptx.OpMin
	positive := in.Flags&ptx.Relu != 0
	ftz := in.Flags&ptx.FTZ != 0
	flush := flusher(in.Type)
	return func(a, b, _, _ uint64) uint64 {
		if ftz {
			a, b = flush(a), flush(b)
		}
		signs := (a ^ b) & sign
		if xorSign {
			a, b = a&^sign, b&^sign
		}
		result := pickFloat(floatPair{a, b, value(a), value(b)}, smallest, wantNaN, nan)
		if xorSign && result != nan {
			result |= signs
		}
		if positive && result != nan && result&sign != 0 {
			return 0
		}
		return result
	}
}

type floatPair struct {
	a, b uint64
	x, y float64
}

// pickFloat returns the smaller or the larger operand by the rules of minMax.
func pickFloat(p floatPair, smallest, wantNaN bool, nan uint64) uint64 {
	xNaN, yNaN := p.x != p.x, p.y != p.y
	switch {
	case xNaN && yNaN, wantNaN && (xNaN || yNaN):
		return nan
	case xNaN:
		return p.b
	case yNaN:
		return p.a
	}
	first := p.x < p.y || p.x == p.y && math.Signbit(p.x) // a is smaller
	if first == smallest {
		return p.a
	}
	return p.b
}

// threeOperand applies f twice, for the three-operand form of min and max.
func threeOperand(f Func) Func {
	return func(a, b, c, d uint64) uint64 { return f(f(a, b, 0, 0), c, 0, 0) }
}

// valueOf returns the function from bits to value of a floating type, and the bits of its canonical
// NaN.
func valueOf(t ptx.Type) (value func(uint64) float64, nan uint64) {
	switch t {
	case ptx.F16, ptx.F16X2:
		return half.value, half.nan
	case ptx.BF16, ptx.BF16X2:
		return bfloat.value, bfloat.nan
	case ptx.F32:
		return func(a uint64) float64 { return float64(f32(a)) }, 0x7fffffff
	}
	return f64, 0x7fffffffffffffff
}

// testp implements testp.
func testp(in *ptx.Inst) Func {
	value, _ := valueOf(in.Type)
	minNormal := math.Ldexp(1, -126)
	if in.Type == ptx.F64 {
		minNormal = math.Ldexp(1, -1022)
	}
	is := func(x float64) bool {
		size := math.Abs(x)
		switch in.Mode {
		case ptx.TestpFinite:
			return finite(x)
		case ptx.TestpInfinite:
			return math.IsInf(x, 0)
		case ptx.TestpNumber:
			return x == x
		case ptx.TestpNotANumber:
			return x != x
		case ptx.TestpNormal:
			return finite(x) && size >= minNormal
		}
		return size > 0 && size < minNormal
	}
	return func(a, _, _, _ uint64) uint64 { return boolBits(is(value(a))) }
}

// boolBits returns 1 or 0.
func boolBits(b bool) uint64 {
	if b {
		return 1
	}
	return 0
}

// Fma32 returns a*b+c on float32 bits, rounded once to nearest.
func Fma32(a, b, c uint32) uint32 {
	return uint32(
		Canonical32(
			round32(exactFma(float64(f32(uint64(a))), float64(f32(uint64(b))), float64(f32(uint64(c)))), ptx.RN),
		),
	)
}
