package arith

import (
	"math"
	"sort"

	"github.com/phos-gpu/phos/internal/ptx"
)

// fp8Format is an 8-bit floating point format. Its values fit a table.
type fp8Format struct {
	// positive holds the values of the codes from 0 to the largest finite one, in ascending order.
	positive []float64
	infinite bool // the code after the largest finite one is infinity; all later codes are NaN
}

// fp8NaN is the NaN that conversions produce.
const fp8NaN = 0x7f

// fp8Formats are the formats of packed pairs.
var fp8Formats = map[ptx.Type]*fp8Format{
	ptx.E4M3X2: newFP8Format(4, 0x7e, false),
	ptx.E5M2X2: newFP8Format(5, 0x7b, true),
}

// newFP8Format builds the table of a format with so many exponent bits.
func newFP8Format(exponent, largest int, infinite bool) *fp8Format {
	f := format{mantissa: 7 - exponent, exponent: exponent}
	e := &fp8Format{infinite: infinite}
	for code := range largest + 1 {
		// The all-ones exponent, which means infinity or NaN in other formats, holds numbers here.
		hidden, shift := 1<<f.mantissa, max(code>>f.mantissa, 1)-f.bias()-f.mantissa
		if code < hidden {
			hidden = 0
		}
		e.positive = append(e.positive, math.Ldexp(float64(code&(1<<f.mantissa-1)|hidden), shift))
	}
	return e
}

// round returns the code of the nearest value, ties to even. It saturates.
func (e *fp8Format) round(x float64) uint64 {
	if x != x {
		return fp8NaN
	}
	sign := math.Float64bits(x) >> 63 << 7
	x = math.Abs(x)
	above := sort.Search(len(e.positive), func(i int) bool { return e.positive[i] > x })
	code := above - 1
	if above < len(e.positive) {
		middle := (e.positive[code] + e.positive[above]) / 2
		if x > middle || x == middle && code&1 == 1 {
			code = above
		}
	}
	return sign | uint64(code)
}

// value decodes one 8-bit code. Codes above the largest number are infinity or NaN.
func (e *fp8Format) value(code uint64) float64 {
	magnitude := int(code & 0x7f)
	x := math.NaN()
	switch {
	case magnitude < len(e.positive):
		x = e.positive[magnitude]
	case magnitude == len(e.positive) && e.infinite:
		x = math.Inf(1)
	}
	if code&0x80 != 0 {
		return -x
	}
	return x
}

// convertToFP8 packs two float32, a into the upper half, or the two halves of a.
func convertToFP8(in *ptx.Inst) Func {
	e, positive := fp8Formats[in.Type], in.Flags&ptx.Relu != 0
	each := func(x float64) uint64 {
		if positive && x <= 0 {
			x = 0
		}
		return e.round(x)
	}
	if in.SrcType == ptx.F16X2 {
		return func(a, _, _, _ uint64) uint64 {
			return each(half.value(a>>16&0xffff))<<8 | each(half.value(a&0xffff))
		}
	}
	return func(a, b, _, _ uint64) uint64 { return each(float64(f32(a)))<<8 | each(float64(f32(b))) }
}

// convertFromFP8 returns two float16, which represent all FP8 values exactly.
func convertFromFP8(in *ptx.Inst) Func {
	e, positive := fp8Formats[in.SrcType], in.Flags&ptx.Relu != 0
	each := func(code uint64) uint64 {
		x := e.value(code)
		if positive && x <= 0 {
			x = 0
		}
		return half.round(x, ptx.RN)
	}
	return func(a, _, _, _ uint64) uint64 { return each(a>>8&0xff)<<16 | each(a&0xff) }
}
