package arith

import (
	"math/bits"

	"github.com/phos-gpu/phos/internal/ptx"
)

// Lookup returns the function of an arithmetic, logic, comparison or conversion instruction. It
// returns nil for other instructions and for combinations of type and modifiers that do not exist.
func Lookup(in *ptx.Inst) Func {
	switch in.Op {
	case ptx.OpSetp:
		return compareFunc(in.Type, in.Cmp, in.Flags&ptx.FTZ != 0)
	case ptx.OpSet:
		return setFunc(in)
	case ptx.OpSlct:
		return selectSign(in)
	case ptx.OpTestp:
		return testp(in)
	case ptx.OpCvt:
		return convert(in)
	case ptx.OpCopysign:
		return signOp(in)
	}
	switch in.Type {
	case ptx.F16X2, ptx.BF16X2, ptx.U16X2, ptx.S16X2:
		single := *in
		single.Type = elementType(in.Type)
		if f := Lookup(&single); f != nil {
			return paired(f)
		}
		return nil
	}
	if in.Type.IsFloat() {
		return floatFunc(in)
	}
	if f := intFunc(in); f != nil {
		return f
	}
	return bitFunc(in)
}

// LookupCarry returns the function of add, sub or mad with the carry flag, or nil if the
// instruction does not use the flag.
func LookupCarry(in *ptx.Inst) CarryFunc {
	if in.Flags&(ptx.CC|ptx.CarryIn) == 0 && in.Op != ptx.OpAddc && in.Op != ptx.OpSubc && in.Op != ptx.OpMadc {
		return nil
	}
	w := width{64 - uint(in.Type.Bits()), false}
	switch in.Op {
	case ptx.OpAdd, ptx.OpAddc:
		return addCarry(w, in.Op == ptx.OpAddc)
	case ptx.OpSub, ptx.OpSubc:
		return subCarry(w, in.Op == ptx.OpSubc)
	case ptx.OpMad, ptx.OpMadc:
		return madCarry(widthOf(in.Type), in.Mode, in.Op == ptx.OpMadc)
	}
	return nil
}

// floatFunc returns the function of an instruction on f16, bf16 or f32, or nil.
func floatFunc(in *ptx.Inst) Func {
	if in.Op == ptx.OpNeg || in.Op == ptx.OpAbs {
		return signOp(in)
	}
	if in.Op == ptx.OpMin || in.Op == ptx.OpMax {
		value, nan := valueOf(in.Type)
		f := minMax(in, value, nan)
		if len(in.Src) == 3 {
			return threeOperand(f)
		}
		return f
	}
	if in.Type == ptx.F64 {
		return doubleFunc(in)
	}
	if op := exact(in); op != nil {
		switch in.Type {
		case ptx.F16:
			return narrowOp(half, op, in)
		case ptx.BF16:
			return narrowOp(bfloat, op, in)
		}
		return f32Op(op, in)
	}
	if approximate(in.Op) != nil {
		return approxFunc(in)
	}
	return nil
}

// exact returns the correctly rounded operation, or nil. Approximate division uses it, too,
// although the ISA does not require it.
func exact(in *ptx.Inst) exactOp {
	if in.Round == ptx.RM {
		switch in.Op {
		case ptx.OpAdd:
			return exactAddDown
		case ptx.OpSub:
			return exactSubDown
		case ptx.OpFma, ptx.OpMad:
			return exactFmaDown
		}
	}
	switch in.Op {
	case ptx.OpAdd:
		return exactAdd
	case ptx.OpSub:
		return exactSub
	case ptx.OpMul:
		return exactMul
	case ptx.OpFma, ptx.OpMad:
		return exactFma
	case ptx.OpDiv:
		return exactDiv
	case ptx.OpSqrt:
		if in.Flags&ptx.Approx == 0 {
			return exactSqrt
		}
	case ptx.OpRcp:
		if in.Flags&ptx.Approx == 0 {
			return exactRcp
		}
	}
	return nil
}

// doubleFunc returns the function of an instruction on f64, or nil.
func doubleFunc(in *ptx.Inst) Func {
	if in.Flags&ptx.Approx != 0 {
		return approxFunc(in)
	}
	switch in.Op {
	case ptx.OpAdd:
		return f64Op(in, func(a, b, _ float64, mode ptx.Round) float64 { return add64(a, b, mode) })
	case ptx.OpSub:
		return f64Op(in, func(a, b, _ float64, mode ptx.Round) float64 { return add64(a, -b, mode) })
	case ptx.OpMul:
		return f64Op(in, func(a, b, _ float64, mode ptx.Round) float64 { return mul64(a, b, mode) })
	case ptx.OpFma, ptx.OpMad:
		return f64Op(in, fma64)
	case ptx.OpDiv:
		return f64Op(in, func(a, b, _ float64, mode ptx.Round) float64 { return div64(a, b, mode) })
	case ptx.OpSqrt:
		return f64Op(in, func(a, _, _ float64, mode ptx.Round) float64 { return sqrt64(a, mode) })
	case ptx.OpRcp:
		return f64Op(in, func(a, _, _ float64, mode ptx.Round) float64 { return div64(1, a, mode) })
	}
	if approximate(in.Op) != nil {
		return approxFunc(in)
	}
	return nil
}

// intFunc returns the function of integer arithmetic, or nil.
func intFunc(in *ptx.Inst) Func {
	w, sat := widthOf(in.Type), in.Flags&ptx.Sat != 0
	switch in.Op {
	case ptx.OpAdd:
		return intAdd(w, sat)
	case ptx.OpSub:
		return intSub(w, sat)
	case ptx.OpMul:
		return intMul(w, in.Mode)
	case ptx.OpMad:
		return intMad(w, in.Mode, sat)
	case ptx.OpMul24:
		return mul24(w, in.Mode)
	case ptx.OpMad24:
		return mad24(w, in.Mode, sat)
	case ptx.OpDiv:
		return intDiv(w)
	case ptx.OpRem:
		return intRem(w)
	case ptx.OpMin, ptx.OpMax:
		return orderFunc(in, w)
	case ptx.OpAbs:
		return intAbs(w)
	case ptx.OpNeg:
		return func(a, _, _, _ uint64) uint64 { return -a }
	case ptx.OpSad:
		return intSad(w)
	case ptx.OpDp4a:
		return dot(byteOf(in.SrcType, in.Type, true), byteOf(in.SrcType, in.Type, false), 4, false)
	case ptx.OpDp2a:
		a := byteOf(in.SrcType, in.Type, true)
		a.unused = 48
		return dot(a, byteOf(in.SrcType, in.Type, false), 2, in.Mode == ptx.DpHi)
	}
	return nil
}

// orderFunc returns min, max and related operations.
func orderFunc(in *ptx.Inst, w width) Func {
	f := intMin(w)
	if in.Op == ptx.OpMax {
		f = intMax(w)
	}
	if in.Flags&ptx.Relu != 0 {
		return relu(w, f)
	}
	return f
}

// byteOf returns the width of a byte of dp4a's first (Type) or second (SrcType) operand.
func byteOf(second, first ptx.Type, wantFirst bool) width {
	t := second
	if wantFirst || second == ptx.NoType {
		t = first
	}
	return width{56, t.IsSigned()}
}

// bitFunc returns the function of an instruction on bits, or nil.
func bitFunc(in *ptx.Inst) Func {
	w := widthOf(in.Type)
	switch in.Op {
	case ptx.OpAnd:
		return func(a, b, _, _ uint64) uint64 { return a & b }
	case ptx.OpOr:
		return func(a, b, _, _ uint64) uint64 { return a | b }
	case ptx.OpXor:
		return func(a, b, _, _ uint64) uint64 { return a ^ b }
	case ptx.OpNot:
		return func(a, _, _, _ uint64) uint64 { return ^a }
	case ptx.OpCnot:
		return func(a, _, _, _ uint64) uint64 { return boolBits(w.u(a) == 0) }
	case ptx.OpShl:
		return shiftLeft(w)
	case ptx.OpShr:
		return shiftRight(w)
	case ptx.OpShf:
		return funnel(in.Mode, in.Flags&ptx.Wrap != 0)
	case ptx.OpBfe:
		return bitfieldExtract(w)
	case ptx.OpBfi:
		return bitfieldInsert(w)
	case ptx.OpBfind:
		return bitfind(w, in.Mode == ptx.BfindShiftAmt)
	case ptx.OpBmsk:
		return bitmask(in.Mode == ptx.WrapMode)
	case ptx.OpSzext:
		return signExtend(w, in.Mode == ptx.WrapMode)
	case ptx.OpVshl, ptx.OpVshr:
		return shiftAdd(in)
	case ptx.OpBrev:
		return reverse(w)
	case ptx.OpClz:
		return leadingZeros(w)
	case ptx.OpPopc:
		return func(a, _, _, _ uint64) uint64 { return uint64(bits.OnesCount64(w.u(a))) }
	case ptx.OpFns:
		return findNth
	case ptx.OpPrmt:
		return permute(in.Mode)
	case ptx.OpLop3:
		return lop3(in.Src[3].Imm)
	}
	return nil
}
