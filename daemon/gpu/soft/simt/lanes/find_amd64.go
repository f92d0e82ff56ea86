package lanes

import (
	"golang.org/x/sys/cpu"

	"github.com/phos-gpu/phos/internal/ptx"
)

// init registers the vector loops if the processor supports them. The implementation affects no
// result except the payload of 64-bit NaNs.
func init() {
	if !cpu.X86.HasAVX2 || !cpu.X86.HasFMA {
		return
	}
	load32, store32 = load32AVX, store32AVX
	Copy32, Copy64, Widen32 = copy32AVX, copy64AVX, widenU32AVX
	fast.loops32, fast.loops64, fast.floatS32 = vector32, vector64, floatS32AVX
	fast.widens, fast.shifts = vectorWidens, vectorShifts
	fast.compares, fast.compares2 = vectorCompares32, vectorCompares64
}

var vector32 = map[key]F32{
	{ptx.OpAdd, unsigned, 0}:         add32AVX,
	{ptx.OpSub, unsigned, 0}:         sub32AVX,
	{ptx.OpNeg, unsigned, 0}:         neg32AVX,
	{ptx.OpAnd, unsigned, 0}:         and32AVX,
	{ptx.OpOr, unsigned, 0}:          or32AVX,
	{ptx.OpXor, unsigned, 0}:         xor32AVX,
	{ptx.OpNot, unsigned, 0}:         not32AVX,
	{ptx.OpShl, unsigned, 0}:         shl32AVX,
	{ptx.OpShr, unsigned, 0}:         shrU32AVX,
	{ptx.OpShr, signed, 0}:           shrS32AVX,
	{ptx.OpMin, unsigned, 0}:         minU32AVX,
	{ptx.OpMin, signed, 0}:           minS32AVX,
	{ptx.OpMax, unsigned, 0}:         maxU32AVX,
	{ptx.OpMax, signed, 0}:           maxS32AVX,
	{ptx.OpMul, unsigned, ptx.MulLo}: mul32AVX,
	{ptx.OpMul, signed, ptx.MulLo}:   mul32AVX,
	{ptx.OpMad, unsigned, ptx.MulLo}: mad32AVX,
	{ptx.OpMad, signed, ptx.MulLo}:   mad32AVX,
	{ptx.OpAdd, float, 0}:            addF32AVX,
	{ptx.OpSub, float, 0}:            subF32AVX,
	{ptx.OpMul, float, 0}:            mulF32AVX,
	{ptx.OpFma, float, 0}:            fmaF32AVX,
	{ptx.OpMad, float, 0}:            fmaF32AVX,
}

var vector64 = map[key]F64{
	{ptx.OpAdd, unsigned, 0}: add64AVX,
	{ptx.OpSub, unsigned, 0}: sub64AVX,
	{ptx.OpNeg, unsigned, 0}: neg64AVX,
	{ptx.OpAnd, unsigned, 0}: and64AVX,
	{ptx.OpOr, unsigned, 0}:  or64AVX,
	{ptx.OpXor, unsigned, 0}: xor64AVX,
	{ptx.OpNot, unsigned, 0}: not64AVX,
	{ptx.OpAdd, float, 0}:    addF64AVX,
	{ptx.OpSub, float, 0}:    subF64AVX,
	{ptx.OpMul, float, 0}:    mulF64AVX,
	{ptx.OpFma, float, 0}:    fmaF64AVX,
	{ptx.OpMad, float, 0}:    fmaF64AVX,
}

var vectorWidens = map[key]Widen{
	{ptx.OpMul, unsigned, ptx.MulWide}: mulWideU32AVX,
	{ptx.OpMul, signed, ptx.MulWide}:   mulWideS32AVX,
	{ptx.OpMad, unsigned, ptx.MulWide}: madWideU32AVX,
	{ptx.OpMad, signed, ptx.MulWide}:   madWideS32AVX,
	{ptx.OpCvt, unsigned, 0}:           widenU32AVX,
	{ptx.OpCvt, signed, 0}:             widenS32AVX,
}

var vectorShifts = map[key]Shift64{
	{ptx.OpShl, unsigned, 0}: shl64AVX, {ptx.OpShl, signed, 0}: shl64AVX, {ptx.OpShr, unsigned, 0}: shrU64AVX,
}

var vectorCompares32 = map[compareKey]Compare32{
	{ptx.EQ, unsigned}: eq32AVX, {ptx.EQ, signed}: eq32AVX, {ptx.EQ, float}: eqF32AVX,
	{ptx.NE, unsigned}: ne32AVX, {ptx.NE, signed}: ne32AVX, {ptx.NEU, float}: neuF32AVX,
	{ptx.LT, signed}: ltS32AVX, {ptx.LT, float}: ltF32AVX,
	{ptx.LE, unsigned}: leU32AVX, {ptx.LE, float}: leF32AVX,
}

var vectorCompares64 = map[compareKey]Compare64{
	{ptx.EQ, unsigned}: eq64AVX, {ptx.EQ, signed}: eq64AVX,
	{ptx.NE, unsigned}: ne64AVX, {ptx.NE, signed}: ne64AVX,
	{ptx.LT, signed}: ltS64AVX,
}
