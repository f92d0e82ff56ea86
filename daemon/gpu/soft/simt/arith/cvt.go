package arith

import (
	"math"
	"math/bits"

	"github.com/phos-gpu/phos/internal/ptx"
)

// convert implements cvt. Operand b is the second source of the packing forms.
func convert(in *ptx.Inst) Func {
	from, to := in.SrcType, in.Type
	switch {
	case fp8Formats[from] != nil:
		return convertFromFP8(in)
	case fp8Formats[to] != nil:
		return convertToFP8(in)
	case to == ptx.F16X2 || to == ptx.BF16X2:
		return convertPair(in)
	case !from.IsFloat() && !to.IsFloat():
		return intToInt(widthOf(from), widthOf(to), in.Flags&ptx.Sat != 0)
	case !from.IsFloat():
		return intToFloat(in)
	case !to.IsFloat():
		return floatToInt(in)
	}
	return floatToFloat(in)
}

// intToInt extends from the source's width to 64 bits. With sat it clamps to the destination's
// range.
func intToInt(from, to width, sat bool) Func {
	if !sat {
		return func(a, _, _, _ uint64) uint64 { return to.extend(from.extend(a)) }
	}
	return func(a, _, _, _ uint64) uint64 {
		v := from.extend(a)
		switch {
		case from.signed && int64(v) < 0 && !to.signed:
			return 0
		case from.signed && int64(v) < 0:
			return uint64(max(int64(v), to.minSigned()))
		case to.signed:
			return min(v, uint64(to.maxSigned()))
		}
		return min(v, to.maxUnsigned())
	}
}

// intToFloat rounds a 64-bit integer once, in the instruction's mode.
func intToFloat(in *ptx.Inst) Func {
	from, mode, sat := widthOf(in.SrcType), in.Round, in.Flags&ptx.Sat != 0
	finish := rounder(in.Type, mode)
	return func(a, _, _, _ uint64) uint64 {
		v := from.extend(a)
		negative := from.signed && int64(v) < 0
		if negative {
			v = -v
		}
		value := oddFloat(v, mode, in.Type == ptx.F64, negative)
		if negative {
			value = -value
		}
		if sat {
			value = clamp01(value)
		}
		return finish(value)
	}
}

// oddFloat converts an unsigned integer to float64. It rounds in mode if the float64 is the final
// result, and to odd otherwise.
func oddFloat(v uint64, mode ptx.Round, final, negative bool) float64 {
	length := bits.Len64(v)
	if length <= 53 {
		return float64(v)
	}
	drop := length - 53
	if final {
		return math.Ldexp(float64(roundOff(v, drop, negative, mode)), drop)
	}
	kept := v >> drop
	if kept<<drop != v {
		kept |= 1
	}
	return math.Ldexp(float64(kept), drop)
}

// rounder returns a function that converts a float64, exact or rounded to odd, to a floating type.
func rounder(t ptx.Type, mode ptx.Round) func(float64) uint64 {
	switch t {
	case ptx.F16:
		return func(x float64) uint64 { return half.round(x, mode) }
	case ptx.BF16:
		return func(x float64) uint64 { return bfloat.round(x, mode) }
	case ptx.F32:
		return func(x float64) uint64 { return Canonical32(round32(x, mode)) }
	}
	return math.Float64bits
}

// floatToInt rounds to an integer and clamps to the destination's range.
func floatToInt(in *ptx.Inst) Func {
	value, _ := valueOf(in.SrcType)
	to, mode := widthOf(in.Type), in.Round
	ftz, flush := in.Flags&ptx.FTZ != 0, flusher(in.SrcType)
	notANumber := uint64(0)
	if in.SrcType == ptx.F64 || to.unused == 0 {
		notANumber = 1 << (to.bits() - 1)
	}
	low, high := 0.0, math.Ldexp(1, int(to.bits()))
	if to.signed {
		low, high = float64(to.minSigned()), -float64(to.minSigned())
	}
	return func(a, _, _, _ uint64) uint64 {
		if ftz {
			a = flush(a)
		}
		x := integral(value(a), mode)
		switch {
		case x != x:
			return notANumber
		case x < low && to.signed:
			return uint64(to.minSigned())
		case x < low:
			return 0
		case x >= high && to.signed:
			return uint64(to.maxSigned())
		case x >= high:
			return to.maxUnsigned()
		case x >= 1<<63:
			return uint64(x-1<<63) | 1<<63
		}
		return uint64(int64(x))
	}
}

// integral rounds to an integral value. The default is toward zero, as in C; the ISA requires a
// mode here.
func integral(x float64, mode ptx.Round) float64 {
	switch mode {
	case ptx.RNI, ptx.RN:
		return math.RoundToEven(x)
	case ptx.RMI, ptx.RM:
		return math.Floor(x)
	case ptx.RPI, ptx.RP:
		return math.Ceil(x)
	}
	return math.Trunc(x)
}

// floatToFloat changes the precision. With an integer rounding mode it rounds to an integral value.
func floatToFloat(in *ptx.Inst) Func {
	value, _ := valueOf(in.SrcType)
	mode := in.Round
	sat, positive := in.Flags&ptx.Sat != 0, in.Flags&ptx.Relu != 0
	ftz, finite := in.Flags&ptx.FTZ != 0, in.Flags&ptx.SatFinite != 0
	infinity := uint64(0x7c00)
	if in.Type == ptx.BF16 {
		infinity = 0x7f80
	}
	flushIn, flushOut := flusher(in.SrcType), flusher(in.Type)
	finish := rounder(in.Type, mode)
	toIntegral := mode == ptx.RNI || mode == ptx.RZI || mode == ptx.RMI || mode == ptx.RPI
	return func(a, _, _, _ uint64) uint64 {
		if ftz {
			a = flushIn(a)
		}
		x := value(a)
		if toIntegral {
			x = integral(x, mode)
		}
		if sat {
			x = clamp01(x)
		}
		if positive && x <= 0 {
			x = 0
		}
		result := finish(x)
		if ftz {
			result = flushOut(result)
		}
		if finite && result&0x7fff == infinity {
			result-- // the largest finite value
		}
		return result
	}
}

// convertPair packs two conversions: operand a into the upper half, b into the lower.
func convertPair(in *ptx.Inst) Func {
	single := *in
	single.Type = elementType(in.Type)
	each := floatToFloat(&single)
	return func(a, b, _, _ uint64) uint64 { return each(a, 0, 0, 0)<<16 | each(b, 0, 0, 0)&0xffff }
}
