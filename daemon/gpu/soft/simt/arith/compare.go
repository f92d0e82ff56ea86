package arith

import (
	"math"

	"github.com/phos-gpu/phos/internal/ptx"
)

// compareFunc returns a comparison in type t, with result 1 or 0.
func compareFunc(t ptx.Type, cmp ptx.Cmp, ftz bool) Func {
	if t.IsFloat() {
		value, _ := valueOf(t)
		ok := floatCompare(cmp)
		if ok == nil {
			return nil
		}
		if ftz {
			flush := flusher(t)
			return func(a, b, _, _ uint64) uint64 { return boolBits(ok(value(flush(a)), value(flush(b)))) }
		}
		return func(a, b, _, _ uint64) uint64 { return boolBits(ok(value(a), value(b))) }
	}
	w := widthOf(t)
	switch cmp {
	case ptx.LO, ptx.LS, ptx.HI, ptx.HS:
		w.signed = false
	}
	switch cmp {
	case ptx.EQ:
		return func(a, b, _, _ uint64) uint64 { return boolBits(w.u(a) == w.u(b)) }
	case ptx.NE:
		return func(a, b, _, _ uint64) uint64 { return boolBits(w.u(a) != w.u(b)) }
	case ptx.LT, ptx.LO:
		return func(a, b, _, _ uint64) uint64 { return boolBits(w.less(a, b)) }
	case ptx.LE, ptx.LS:
		return func(a, b, _, _ uint64) uint64 { return boolBits(!w.less(b, a)) }
	case ptx.GT, ptx.HI:
		return func(a, b, _, _ uint64) uint64 { return boolBits(w.less(b, a)) }
	case ptx.GE, ptx.HS:
		return func(a, b, _, _ uint64) uint64 { return boolBits(!w.less(a, b)) }
	}
	return nil
}

// floatCompare returns the comparison of floats. The U forms also hold if an operand is NaN.
func floatCompare(cmp ptx.Cmp) func(x, y float64) bool {
	switch cmp {
	case ptx.EQ:
		return func(x, y float64) bool { return x == y }
	case ptx.NE:
		return func(x, y float64) bool { return x < y || x > y }
	case ptx.LT:
		return func(x, y float64) bool { return x < y }
	case ptx.LE:
		return func(x, y float64) bool { return x <= y }
	case ptx.GT:
		return func(x, y float64) bool { return x > y }
	case ptx.GE:
		return func(x, y float64) bool { return x >= y }
	case ptx.EQU:
		return func(x, y float64) bool { return !(x < y || x > y) }
	case ptx.NEU:
		return func(x, y float64) bool { return x != y }
	case ptx.LTU:
		return func(x, y float64) bool { return !(x >= y) }
	case ptx.LEU:
		return func(x, y float64) bool { return !(x > y) }
	case ptx.GTU:
		return func(x, y float64) bool { return !(x <= y) }
	case ptx.GEU:
		return func(x, y float64) bool { return !(x < y) }
	case ptx.NUM:
		return func(x, y float64) bool { return x == x && y == y }
	case ptx.NAN:
		return func(x, y float64) bool { return x != x || y != y }
	}
	return nil
}

// setFunc implements set: all ones or 1.0 for true. The combining predicate, if any, is operand c.
func setFunc(in *ptx.Inst) Func {
	cmp := compareFunc(in.SrcType, in.Cmp, in.Flags&ptx.FTZ != 0)
	if cmp == nil {
		return nil
	}
	yes := ^uint64(0)
	switch in.Type {
	case ptx.F32:
		yes = uint64(math.Float32bits(1))
	case ptx.F16:
		yes = half.round(1, ptx.RN)
	case ptx.BF16:
		yes = bfloat.round(1, ptx.RN)
	}
	combine := Combine(in.Bool)
	set := func(a, b, c, _ uint64) uint64 { return -combine(cmp(a, b, 0, 0), c) & yes }
	switch in.SrcType {
	case ptx.F16X2, ptx.BF16X2:
		return pairedSet(in)
	}
	return set
}

// pairedSet is setFunc for both halves of packed operands.
func pairedSet(in *ptx.Inst) Func {
	single := *in
	single.SrcType = elementType(in.SrcType)
	single.Type = elementType(in.Type)
	return paired(setFunc(&single))
}

// elementType returns the element type of a packed type. A 32-bit type stands for two halves.
func elementType(t ptx.Type) ptx.Type {
	switch t {
	case ptx.F16X2:
		return ptx.F16
	case ptx.BF16X2:
		return ptx.BF16
	case ptx.U16X2, ptx.U32:
		return ptx.U16
	case ptx.S16X2, ptx.S32:
		return ptx.S16
	}
	return t
}

// Combine returns the function that combines a comparison with a predicate, both 0 or 1.
func Combine(op ptx.BoolOp) func(result, predicate uint64) uint64 {
	switch op {
	case ptx.BoolAnd:
		return func(r, p uint64) uint64 { return r & p }
	case ptx.BoolOr:
		return func(r, p uint64) uint64 { return r | p }
	case ptx.BoolXor:
		return func(r, p uint64) uint64 { return r ^ p }
	}
	return func(r, _ uint64) uint64 { return r }
}

// selectSign implements slct: a if c >= 0, else b.
func selectSign(in *ptx.Inst) Func {
	if in.SrcType == ptx.F32 {
		ftz := in.Flags&ptx.FTZ != 0
		return func(a, b, c, _ uint64) uint64 {
			x := f32(c)
			if ftz {
				x = flush32(x)
			}
			if x >= 0 {
				return a
			}
			return b
		}
	}
	return func(a, b, c, _ uint64) uint64 {
		if int32(c) >= 0 {
			return a
		}
		return b
	}
}
