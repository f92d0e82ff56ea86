package arith

import (
	"math/bits"

	"github.com/phos-gpu/phos/internal/ptx"
)

func shiftLeft(w width) Func {
	return func(a, b, _, _ uint64) uint64 { return a << uint32(b) }
}

// shiftRight implements shr. Amounts from the width on give zero or, if signed, copies of the sign.
func shiftRight(w width) Func {
	if w.signed {
		return func(a, b, _, _ uint64) uint64 { return uint64(w.s(a) >> uint32(b)) }
	}
	return func(a, b, _, _ uint64) uint64 { return w.u(a) >> uint32(b) }
}

// funnel implements shf: a window of 32 bits on the 64 bits b:a.
func funnel(mode ptx.Mode, wrap bool) Func {
	return func(a, b, c, _ uint64) uint64 {
		both := b<<32 | a&0xffffffff
		n := uint32(c)
		if wrap {
			n &= 31
		} else {
			n = min(n, 32)
		}
		if mode == ptx.ShfLeft {
			return both << n >> 32
		}
		return both >> n
	}
}

// bitfieldExtract implements bfe: c bits of a from bit b on. Signed fields are sign-extended.
func bitfieldExtract(w width) Func {
	return func(a, b, c, _ uint64) uint64 {
		position, length := b&0xff, c&0xff
		if length == 0 {
			return 0
		}
		var fill uint64
		if w.signed {
			fill = -(w.u(a) >> min(position+length-1, w.bits()-1) & 1)
		}
		valid := min(length, w.bits()-min(position, w.bits()))
		return w.u(a)>>position&(1<<valid-1) | fill<<valid
	}
}

// bitfieldInsert implements bfi: b, with the low d bits of a inserted from bit c on.
func bitfieldInsert(w width) Func {
	return func(a, b, c, d uint64) uint64 {
		position, length := c&0xff, d&0xff
		mask := ^uint64(0)
		if length < 64 {
			mask = 1<<length - 1
		}
		mask <<= position
		return b&^mask | a<<position&mask
	}
}

// bitfind implements bfind: the position of the highest bit that differs from the sign, or its
// shift amount.
func bitfind(w width, shiftAmount bool) Func {
	return func(a, _, _, _ uint64) uint64 {
		v := w.u(a)
		if w.signed && w.s(a) < 0 {
			v = w.u(^a)
		}
		if v == 0 {
			return 0xffffffff
		}
		position := uint64(bits.Len64(v) - 1)
		if shiftAmount {
			return w.bits() - 1 - position
		}
		return position
	}
}

// bitmask implements bmsk: b ones from bit a on.
func bitmask(wrap bool) Func {
	return func(a, b, _, _ uint64) uint64 {
		start, length := a, b
		if wrap {
			start, length = a&31, b&31
		}
		start, length = min(start&0xffffffff, 32), min(length&0xffffffff, 32)
		return (1<<length - 1) << start
	}
}

// signExtend implements szext: it extends the low b bits of a.
func signExtend(w width, wrap bool) Func {
	return func(a, b, _, _ uint64) uint64 {
		n := b & 0xffffffff
		if wrap {
			n &= 31
		}
		if n == 0 {
			return 0
		}
		if n >= 32 {
			return a
		}
		return width{64 - uint(n), w.signed}.extend(a)
	}
}

func leadingZeros(w width) Func {
	return func(a, _, _, _ uint64) uint64 { return uint64(bits.LeadingZeros64(w.u(a))) - uint64(w.unused) }
}

// reverse implements brev.
func reverse(w width) Func {
	return func(a, _, _, _ uint64) uint64 { return bits.Reverse64(a) >> w.unused }
}

// findNth implements fns: the position of the nth set bit of mask, counted from base, downwards if
// n is negative.
func findNth(mask, base, n, _ uint64) uint64 {
	step, count := 1, int32(n)
	position := int(base & 31)
	if count == 0 {
		if mask>>position&1 == 1 {
			return uint64(position)
		}
		return 0xffffffff
	}
	if count < 0 {
		step, count = -1, -count
	}
	for ; position >= 0 && position < 32; position += step {
		if mask>>position&1 == 1 {
			if count--; count == 0 {
				return uint64(position)
			}
		}
	}
	return 0xffffffff
}

// lop3 implements any function of three bits by its truth table.
func lop3(table uint64) Func {
	return func(a, b, c, _ uint64) uint64 {
		var result uint64
		for row := range uint64(8) {
			if table>>row&1 == 1 {
				result |= selectBits(a, row>>2) & selectBits(b, row>>1) & selectBits(c, row)
			}
		}
		return result
	}
}

// selectBits returns v if the row of the truth table wants ones, and its complement if it wants
// zeroes.
func selectBits(v, row uint64) uint64 {
	if row&1 == 1 {
		return v
	}
	return ^v
}

// permute implements prmt. In the default mode every nibble of c selects a byte of b:a, and its top
// bit replicates that byte's sign.
func permute(mode ptx.Mode) Func {
	if mode == ptx.ModeNone {
		return func(a, b, c, _ uint64) uint64 {
			both := b<<32 | a&0xffffffff
			var result uint64
			for i := range uint(4) {
				nibble := c >> (4 * i) & 15
				value := both >> (8 * (nibble & 7)) & 0xff
				if nibble&8 != 0 {
					value = uint64(int64(int8(value))>>7) & 0xff
				}
				result |= value << (8 * i)
			}
			return result
		}
	}
	rows := permutations[mode]
	return func(a, b, c, _ uint64) uint64 {
		both := b<<32 | a&0xffffffff
		row := rows[c&3]
		var result uint64
		for i := range uint(4) {
			result |= both >> (8 * (row >> (4 * i) & 7)) & 0xff << (8 * i)
		}
		return result
	}
}

// permutations are the selectors of the special modes of prmt for c = 0..3, a nibble per byte,
// lowest byte first.
var permutations = map[ptx.Mode][4]uint64{
	ptx.PrmtF4E:  {0x3210, 0x4321, 0x5432, 0x6543},
	ptx.PrmtB4E:  {0x5670, 0x6701, 0x7012, 0x0123},
	ptx.PrmtRC8:  {0x0000, 0x1111, 0x2222, 0x3333},
	ptx.PrmtECL:  {0x3210, 0x3211, 0x3222, 0x3333},
	ptx.PrmtECR:  {0x0000, 0x1110, 0x2210, 0x3210},
	ptx.PrmtRC16: {0x1010, 0x3232, 0x1010, 0x3232},
}

// dot implements dp4a and dp2a: products of bytes of b with bytes (dp4a) or halves (dp2a) of a,
// added to c.
func dot(aw, bw width, parts int, upper bool) Func {
	aBits := uint(32 / parts)
	first := 0
	if upper {
		first = 2
	}
	return func(a, b, c, _ uint64) uint64 {
		sum := c
		for i := range parts {
			sum += aw.extend(a>>(aBits*uint(i))) * bw.extend(b>>(8*uint(i+first)))
		}
		return sum
	}
}

// shiftAdd implements vshl and vshr on 32 bits: the shifted a plus c.
func shiftAdd(in *ptx.Inst) Func {
	left, wrap := in.Op == ptx.OpVshl, in.Mode == ptx.WrapMode
	return func(a, b, c, _ uint64) uint64 {
		a, b = a&0xffffffff, b&0xffffffff
		if wrap {
			b &= 31
		}
		b = min(b, 32)
		if left {
			return a<<b + c
		}
		return a>>b + c
	}
}
