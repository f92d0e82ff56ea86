package lanes

import "github.com/phos-gpu/phos/internal/ptx"

// V32 is a 32-bit register of all lanes.
type V32 = [32]uint32

// V64 is a 64-bit register of all lanes.
type V64 = [32]uint64

// Signatures of loops. A destination may also be a source.
type (
	// F32 computes 32-bit lanes from up to three 32-bit operands.
	F32 func(d, a, b, c *V32)
	// F64 is the same for 64 bits.
	F64 func(d, a, b, c *V64)
	// Widen computes 64-bit lanes from two 32-bit operands and a 64-bit one.
	Widen func(d *V64, a, b *V32, c *V64)
	// Narrow computes 32-bit lanes from a 64-bit operand.
	Narrow func(d *V32, a *V64)
	// Shift64 shifts 64-bit lanes by 32-bit amounts.
	Shift64 func(d, a *V64, b *V32)
	// Compare32 compares and returns a mask of lanes.
	Compare32 func(a, b *V32) uint32
	// Compare64 is the same for 64 bits.
	Compare64 func(a, b *V64) uint32
)

// key selects a loop: the opcode, the kind of the type (signed, float or plain) and the mode.
type key struct {
	op   ptx.Op
	kind kind
	mode ptx.Mode
}

type kind uint8

const (
	unsigned kind = iota
	signed
	float
)

// kindOf returns the kind of a type. Untyped bits count as unsigned.
func kindOf(t ptx.Type) kind {
	switch {
	case t.IsFloat():
		return float
	case t.IsSigned():
		return signed
	}
	return unsigned
}

// unmodified reports whether the instruction has none of the modifiers that the loops do not
// support.
func unmodified(in *ptx.Inst) bool {
	if in.Flags&(ptx.FTZ|ptx.Sat|ptx.CC|ptx.CarryIn|ptx.NaN|ptx.XorSign|ptx.Relu) != 0 || len(in.Src) > 3 {
		return false
	}
	return in.Round == ptx.RoundDefault || in.Round == ptx.RN
}

func packed(t ptx.Type) bool {
	return t == ptx.F16X2 || t == ptx.BF16X2 || t == ptx.U16X2 || t == ptx.S16X2
}

// fast holds the loops that are faster on this processor than the portable ones, by the same keys.
// An operation that is the same for all integers is under unsigned.
var fast struct {
	loops32   map[key]F32
	loops64   map[key]F64
	widens    map[key]Widen
	shifts    map[key]Shift64
	compares  map[compareKey]Compare32
	compares2 map[compareKey]Compare64
	floatS32  F32
}

// Copy32 copies a 32-bit register.
var Copy32 F32 = copy32

// Copy64 copies a 64-bit register.
var Copy64 F64 = copy64

// Widen32 zero-extends 32-bit lanes; it uses only the first two operands.
var Widen32 Widen = widenU32

// signless32 lists operations that are the same for signed and unsigned integers.
var signless32 = map[ptx.Op]F32{
	ptx.OpAdd: add32, ptx.OpSub: sub32, ptx.OpNeg: neg32, ptx.OpAnd: and32, ptx.OpOr: or32, ptx.OpXor: xor32,
	ptx.OpNot: not32, ptx.OpShl: shl32,
}

var find32 = map[key]F32{
	{ptx.OpShr, unsigned, 0}:         shrU32,
	{ptx.OpShr, signed, 0}:           shrS32,
	{ptx.OpMin, unsigned, 0}:         minU32,
	{ptx.OpMin, signed, 0}:           minS32,
	{ptx.OpMax, unsigned, 0}:         maxU32,
	{ptx.OpMax, signed, 0}:           maxS32,
	{ptx.OpMul, unsigned, ptx.MulLo}: mul32,
	{ptx.OpMul, signed, ptx.MulLo}:   mul32,
	{ptx.OpMul, unsigned, ptx.MulHi}: mulHiU32,
	{ptx.OpMul, signed, ptx.MulHi}:   mulHiS32,
	{ptx.OpMad, unsigned, ptx.MulLo}: mad32,
	{ptx.OpMad, signed, ptx.MulLo}:   mad32,
	{ptx.OpAdd, float, 0}:            addF32,
	{ptx.OpSub, float, 0}:            subF32,
	{ptx.OpMul, float, 0}:            mulF32,
	{ptx.OpFma, float, 0}:            fmaF32,
	{ptx.OpMad, float, 0}:            fmaF32,
	{ptx.OpMin, float, 0}:            minF32,
	{ptx.OpMax, float, 0}:            maxF32,
	{ptx.OpNeg, float, 0}:            negF32,
	{ptx.OpAbs, float, 0}:            absF32,
}

// Find32 returns the loop of an instruction whose operands are all 32 bits wide.
func Find32(in *ptx.Inst) F32 {
	if !unmodified(in) || packed(in.Type) || in.Type.Bits() != 32 {
		return nil
	}
	k := kindOf(in.Type)
	if f := signless32[in.Op]; f != nil && k != float {
		return firstOf(fast.loops32[key{in.Op, unsigned, 0}], f)
	}
	if (in.Op == ptx.OpMin || in.Op == ptx.OpMax) && len(in.Src) != 2 {
		return nil
	}
	at := key{in.Op, k, in.Mode}
	return firstOf(fast.loops32[at], find32[at])
}

var signless64 = map[ptx.Op]F64{
	ptx.OpAdd: add64, ptx.OpSub: sub64, ptx.OpNeg: neg64, ptx.OpAnd: and64, ptx.OpOr: or64, ptx.OpXor: xor64,
	ptx.OpNot: not64,
}

var find64 = map[key]F64{
	{ptx.OpMul, unsigned, ptx.MulLo}: mul64,
	{ptx.OpMul, signed, ptx.MulLo}:   mul64,
	{ptx.OpMad, unsigned, ptx.MulLo}: mad64,
	{ptx.OpMad, signed, ptx.MulLo}:   mad64,
	{ptx.OpAdd, float, 0}:            addF64,
	{ptx.OpSub, float, 0}:            subF64,
	{ptx.OpMul, float, 0}:            mulF64,
	{ptx.OpFma, float, 0}:            fmaF64,
	{ptx.OpMad, float, 0}:            fmaF64,
}

// Find64 returns the loop of an instruction whose operands are all 64 bits wide.
func Find64(in *ptx.Inst) F64 {
	if !unmodified(in) || in.Type.Bits() != 64 {
		return nil
	}
	k := kindOf(in.Type)
	if f := signless64[in.Op]; f != nil && k != float {
		return firstOf(fast.loops64[key{in.Op, unsigned, 0}], f)
	}
	at := key{in.Op, k, in.Mode}
	return firstOf(fast.loops64[at], find64[at])
}

// firstOf returns f, or portable if f is nil.
func firstOf[F F32 | F64 | Widen | Shift64 | Compare32 | Compare64](f, portable F) F {
	if f != nil {
		return f
	}
	return portable
}

// widens lists conversions by the kind of their source.
var widens = map[key]Widen{
	{ptx.OpMul, unsigned, ptx.MulWide}: mulWideU32,
	{ptx.OpMul, signed, ptx.MulWide}:   mulWideS32,
	{ptx.OpMad, unsigned, ptx.MulWide}: madWideU32,
	{ptx.OpMad, signed, ptx.MulWide}:   madWideS32,
	{ptx.OpCvt, unsigned, 0}:           widenU32,
	{ptx.OpCvt, signed, 0}:             widenS32,
	{ptx.OpCvt, float, 0}:              widenF32,
}

// FindWiden returns the loop of mul.wide, mad.wide and conversions from 32 to 64 bits.
func FindWiden(in *ptx.Inst) Widen {
	at := key{in.Op, kindOf(in.Type), in.Mode}
	switch {
	case in.Flags&(ptx.FTZ|ptx.Sat) != 0:
		return nil
	case in.Mode == ptx.MulWide && in.Type.Bits() == 32:
	case in.Op != ptx.OpCvt || in.Type.Bits() != 64 || in.SrcType.Bits() != 32:
		return nil
	case in.Type.IsFloat() != in.SrcType.IsFloat() || in.Type.IsFloat() && in.Round != ptx.RoundDefault:
		return nil
	default:
		at = key{in.Op, kindOf(in.SrcType), 0}
	}
	return firstOf(fast.widens[at], widens[at])
}

// FindNarrow returns the loop of conversions from 64 to 32 bits.
func FindNarrow(in *ptx.Inst) Narrow {
	if in.Op != ptx.OpCvt || in.Type.Bits() != 32 || in.SrcType.Bits() != 64 || in.Flags&(ptx.FTZ|ptx.Sat|ptx.Relu) != 0 {
		return nil
	}
	switch {
	case in.Type == ptx.F32 && in.SrcType == ptx.F64 && in.Round == ptx.RN:
		return narrowF64
	case !in.Type.IsFloat() && !in.SrcType.IsFloat():
		return narrow64
	}
	return nil
}

// FindConvert returns the loop of conversions between 32-bit types.
func FindConvert(in *ptx.Inst) F32 {
	if in.Op != ptx.OpCvt || in.Type.Bits() != 32 || in.SrcType.Bits() != 32 || in.Flags&(ptx.FTZ|ptx.Sat|ptx.Relu) != 0 ||
		packed(in.Type) || packed(in.SrcType) {
		return nil
	}
	from, to := kindOf(in.SrcType), kindOf(in.Type)
	switch {
	case from != float && to != float:
		return Copy32
	case from == unsigned && to == float && in.Round == ptx.RN:
		return floatU32
	case from == signed && to == float && in.Round == ptx.RN:
		return firstOf(fast.floatS32, floatS32)
	}
	return nil
}

var shifts = map[key]Shift64{
	{ptx.OpShl, unsigned, 0}: shl64, {ptx.OpShl, signed, 0}: shl64,
	{ptx.OpShr, unsigned, 0}: shrU64, {ptx.OpShr, signed, 0}: shrS64,
}

// FindShift64 returns the loop of a 64-bit shift.
func FindShift64(in *ptx.Inst) Shift64 {
	if in.Type.Bits() != 64 {
		return nil
	}
	at := key{in.Op, kindOf(in.Type), 0}
	return firstOf(fast.shifts[at], shifts[at])
}
