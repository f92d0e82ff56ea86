package arith

import (
	"math"

	"github.com/phos-gpu/phos/daemon/gpu/ptx"
)

// approximate is the function behind an instruction that may err; all are better than the ISA asks, being computed in
// float64 and rounded once.
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

// approxFunc is the approximate function in the instruction's type.
func approxFunc(in *ptx.Inst) Func {
	f := approximate(in.Op)
	op := func(a, _, _ float64) float64 { return f(a) }
	switch in.Type {
	case ptx.F32:
		return f32Op(op, nearest(in))
	case ptx.F16:
		return narrowOp(half, op, in)
	case ptx.BF16:
		return narrowOp(brain, op, in)
	case ptx.F16X2:
		return paired(narrowOp(half, op, in))
	case ptx.BF16X2:
		return paired(narrowOp(brain, op, in))
	}
	// rcp.approx.ftz.f64 and rsqrt.approx.f64 flush subnormals; a full-precision answer is within their error.
	return f64Op(in, func(a, _, _ float64, _ ptx.Round) float64 { return f(a) })
}

// nearest is the instruction without its rounding mode, for results that are approximations anyway.
func nearest(in *ptx.Inst) *ptx.Inst {
	plain := *in
	plain.Round = ptx.RN
	return &plain
}
