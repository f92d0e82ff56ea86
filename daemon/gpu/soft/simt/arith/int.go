package arith

import (
	"math/bits"

	"github.com/phos-gpu/phos/internal/ptx"
)

// Func is an operation on the bits of up to four operands.
type Func func(a, b, c, d uint64) uint64

// CarryFunc is an operation with the carry flag. carry and carryOut are 0 or 1.
type CarryFunc func(a, b, c, carry uint64) (result, carryOut uint64)

// width truncates register bits to an integer type.
type width struct {
	unused uint // 64 - bits of the type
	signed bool
}

func widthOf(t ptx.Type) width { return width{64 - uint(t.Bits()), t.IsSigned()} }

func (w width) bits() uint64        { return uint64(64 - w.unused) }
func (w width) u(v uint64) uint64   { return v << w.unused >> w.unused }
func (w width) s(v uint64) int64    { return int64(v<<w.unused) >> w.unused }
func (w width) maxUnsigned() uint64 { return ^uint64(0) >> w.unused }
func (w width) minSigned() int64    { return -1 << (w.bits() - 1) }
func (w width) maxSigned() int64    { return int64(w.maxUnsigned() >> 1) }

// extend extends to 64 bits by the signedness of the type.
func (w width) extend(v uint64) uint64 {
	if w.signed {
		return uint64(w.s(v))
	}
	return w.u(v)
}

// less reports whether a < b in the type's low bits and signedness.
func (w width) less(a, b uint64) bool {
	if w.signed {
		return w.s(a) < w.s(b)
	}
	return w.u(a) < w.u(b)
}

// clamp saturates a sum that may have left 32 bits, for .sat on s32.
func (w width) clamp(v int64) uint64 { return uint64(max(w.minSigned(), min(w.maxSigned(), v))) }

// intAdd implements add. With sat it clamps to the range of the type, else it wraps around.
func intAdd(w width, sat bool) Func {
	if sat {
		return func(a, b, _, _ uint64) uint64 { return w.clamp(w.s(a) + w.s(b)) }
	}
	return func(a, b, _, _ uint64) uint64 { return a + b }
}

// intSub implements sub. With sat it clamps to the range of the type, else it wraps around.
func intSub(w width, sat bool) Func {
	if sat {
		return func(a, b, _, _ uint64) uint64 { return w.clamp(w.s(a) - w.s(b)) }
	}
	return func(a, b, _, _ uint64) uint64 { return a - b }
}

// mulHi returns the upper half of a product.
func mulHi(w width) func(a, b uint64) uint64 {
	if w.unused != 0 {
		return func(a, b uint64) uint64 { return w.extend(a) * w.extend(b) >> w.bits() }
	}
	if w.signed {
		return func(a, b uint64) uint64 {
			high, _ := bits.Mul64(a, b)
			return high - uint64(int64(a)>>63)&b - uint64(int64(b)>>63)&a
		}
	}
	return func(a, b uint64) uint64 {
		high, _ := bits.Mul64(a, b)
		return high
	}
}

// intMul implements mul: the low half of the product, the upper half, or all of it.
func intMul(w width, mode ptx.Mode) Func {
	switch mode {
	case ptx.MulHi:
		hi := mulHi(w)
		return func(a, b, _, _ uint64) uint64 { return hi(a, b) }
	case ptx.MulWide:
		return func(a, b, _, _ uint64) uint64 { return w.extend(a) * w.extend(b) }
	}
	return func(a, b, _, _ uint64) uint64 { return a * b }
}

// intMad implements mad: what intMul returns, plus c.
func intMad(w width, mode ptx.Mode, sat bool) Func {
	mul := intMul(w, mode)
	if sat { // mad.hi.sat.s32
		return func(a, b, c, _ uint64) uint64 { return w.clamp(w.s(mul(a, b, 0, 0)) + w.s(c)) }
	}
	return func(a, b, c, _ uint64) uint64 { return mul(a, b, 0, 0) + c }
}

// mul24 multiplies the low 24 bits; hi takes bits 47..16 of the 48-bit product.
func mul24(w width, mode ptx.Mode) Func {
	narrow := width{40, w.signed}
	return func(a, b, _, _ uint64) uint64 {
		product := narrow.extend(a) * narrow.extend(b)
		if mode == ptx.MulHi {
			return product >> 16
		}
		return product
	}
}

// mad24 adds c to what mul24 returns. With sat it clamps the sum.
func mad24(w width, mode ptx.Mode, sat bool) Func {
	mul := mul24(w, mode)
	if sat {
		return func(a, b, c, _ uint64) uint64 { return w.clamp(w.s(mul(a, b, 0, 0)) + w.s(c)) }
	}
	return func(a, b, c, _ uint64) uint64 { return mul(a, b, 0, 0) + c }
}

// intDiv divides. A zero divisor gives all ones, as on hardware.
func intDiv(w width) Func {
	if w.signed {
		return func(a, b, _, _ uint64) uint64 {
			if w.u(b) == 0 {
				return w.maxUnsigned()
			}
			return uint64(w.s(a) / w.s(b))
		}
	}
	return func(a, b, _, _ uint64) uint64 {
		if w.u(b) == 0 {
			return w.maxUnsigned()
		}
		return w.u(a) / w.u(b)
	}
}

// intRem implements rem. A zero divisor gives all ones, as in intDiv.
func intRem(w width) Func {
	if w.signed {
		return func(a, b, _, _ uint64) uint64 {
			if w.u(b) == 0 {
				return w.maxUnsigned()
			}
			return uint64(w.s(a) % w.s(b))
		}
	}
	return func(a, b, _, _ uint64) uint64 {
		if w.u(b) == 0 {
			return w.maxUnsigned()
		}
		return w.u(a) % w.u(b)
	}
}

// intMin implements min by the signedness of the type.
func intMin(w width) Func {
	return func(a, b, _, _ uint64) uint64 {
		if w.less(b, a) {
			return b
		}
		return a
	}
}

// intMax implements max by the signedness of the type.
func intMax(w width) Func {
	return func(a, b, _, _ uint64) uint64 {
		if w.less(a, b) {
			return b
		}
		return a
	}
}

// intAbs implements abs. The smallest number stays negative.
func intAbs(w width) Func {
	return func(a, _, _, _ uint64) uint64 {
		if w.s(a) < 0 {
			return -a
		}
		return a
	}
}

// relu implements .relu of integer min and max: negative results become zero.
func relu(w width, f Func) Func {
	return func(a, b, c, d uint64) uint64 {
		if v := f(a, b, c, d); w.s(v) > 0 {
			return v
		}
		return 0
	}
}

// intSad implements sad: c plus the absolute difference of a and b.
func intSad(w width) Func {
	return func(a, b, c, _ uint64) uint64 {
		if w.less(a, b) {
			a, b = b, a
		}
		return c + w.extend(a) - w.extend(b)
	}
}

// paired applies a 16-bit operation to both halves.
func paired(f Func) Func {
	return func(a, b, c, d uint64) uint64 {
		low := f(a&0xffff, b&0xffff, c&0xffff, d&0xffff) & 0xffff
		high := f(a>>16&0xffff, b>>16&0xffff, c>>16&0xffff, d>>16&0xffff) & 0xffff
		return low | high<<16
	}
}

// The carry chain. A subtraction adds the complement, so its carry is set if it does not borrow.
// This is visible only if an addition takes the carry of a subtraction, as in nvcc's 128-bit
// division.

func addCarry(w width, carryIn bool) CarryFunc {
	return func(a, b, _, carry uint64) (uint64, uint64) {
		if !carryIn {
			carry = 0
		}
		sum, over := bits.Add64(w.u(a), w.u(b), carry)
		if w.unused != 0 {
			over = sum >> w.bits() & 1
		}
		return sum, over
	}
}

// subCarry implements sub.cc and, with carryIn, subc: without carryIn nothing is borrowed.
func subCarry(w width, carryIn bool) CarryFunc {
	return func(a, b, _, carry uint64) (uint64, uint64) {
		if !carryIn {
			carry = 1
		}
		difference, borrow := bits.Sub64(w.u(a), w.u(b), 1-carry)
		return difference, 1 - borrow
	}
}

// madCarry implements mad.cc and, with carryIn, madc: only the addition uses the carry.
func madCarry(w width, mode ptx.Mode, carryIn bool) CarryFunc {
	mul := intMul(w, mode)
	add := addCarry(width{w.unused, false}, carryIn)
	return func(a, b, c, carry uint64) (uint64, uint64) { return add(mul(a, b, 0, 0), c, 0, carry) }
}
