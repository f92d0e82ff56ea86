package arith

import (
	"math"

	"github.com/phos-gpu/phos/internal/ptx"
)

// approximate returns the function of an approximate instruction. All are more precise than the ISA
// requires: they are computed in float64 and rounded once.
func approximate(op ptx.Op) func(float64) float64 {
	switch op {
	case ptx.OpCos:
		return math.Cos
	case ptx.OpSin:
		return math.Sin
	case ptx.OpEx2:
		return math.Exp2
	case ptx.OpLg2:
		return math.Log2
	case ptx.OpRcp:
		return func(x float64) float64 { return 1 / x }
	case ptx.OpRsqrt:
		return func(x float64) float64 { return 1 / math.Sqrt(x) }
	case ptx.OpSqrt:
		return math.Sqrt
	case ptx.OpTanh:
		return math.Tanh
	}
	return nil
}

// approxFunc returns the approximate function in the instruction's type.
func approxFunc(in *ptx.Inst) Func {
	f := approximate(in.Op)
	op := func(a, _, _ float64) float64 { return f(a) }
	switch in.Type {
	case ptx.F32:
		return f32Op(op, withoutRounding(in))
	case ptx.F16:
		return narrowOp(half, op, in)
	case ptx.BF16:
		return narrowOp(bfloat, op, in)
	case ptx.F16X2:
		return paired(narrowOp(half, op, in))
	case ptx.BF16X2:
		return paired(narrowOp(bfloat, op, in))
	}
	if in.Flags&ptx.FTZ != 0 {
		return coarseDouble(f)
	}
	// A full-precision result is within the error bound of rsqrt.approx.f64.
	return f64Op(in, func(a, _, _ float64, _ ptx.Round) float64 { return f(a) })
}

// coarseDouble implements rcp and rsqrt with .approx.ftz.f64. They use the upper half of a double,
// and the lower half of the result is zero. Subnormal operands and results are zeroes.
func coarseDouble(f func(float64) float64) Func {
	const upper, sign, exponent = uint64(0xffffffff00000000), uint64(1) << 63, uint64(0x7ff) << 52
	flush := func(bits uint64) uint64 {
		if bits&exponent == 0 {
			return bits & sign
		}
		return bits & upper
	}
	return func(a, _, _, _ uint64) uint64 {
		result := f(f64(flush(a)))
		if result != result {
			return 0x7fffffff << 32
		}
		return flush(math.Float64bits(result))
	}
}

// withoutRounding returns the instruction without its rounding mode, for results that are
// approximations anyway.
func withoutRounding(in *ptx.Inst) *ptx.Inst {
	plain := *in
	plain.Round = ptx.RN
	return &plain
}
