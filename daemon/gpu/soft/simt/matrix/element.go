package matrix

import (
	"math"
	"sync"

	"github.com/phos-gpu/phos/daemon/gpu/soft/simt/arith"
	"github.com/phos-gpu/phos/internal/ptx"
)

// quad holds the elements of one register, up to four. It is passed by value: slices passed to a
// function variable would escape to the heap.
type quad [4]float64

// decoder decodes the elements of one register.
type decoder func(bits uint64) quad

// encoder encodes an element.
type encoder func(x float64) uint64

var decoders = map[ptx.Type]decoder{
	ptx.BF16: decodeBFloat16, ptx.TF32: decodeTF32, ptx.F32: decodeFloat32, ptx.F64: decodeFloat64,
	ptx.S8: decodeSigned, ptx.U8: decodeUnsigned, ptx.S32: decodeInteger,
}

// halves holds the value of every float16: 256 KiB, computed on first use.
var halves = sync.OnceValue(func() *[1 << 16]float32 {
	table := new([1 << 16]float32)
	for bits := range table {
		table[bits] = float32(arith.HalfValue(uint64(bits)))
	}
	return table
})

// decoderOf returns the decoder of a type. That of float16 looks values up in halves.
func decoderOf(t ptx.Type) decoder {
	if t != ptx.F16 {
		return decoders[t]
	}
	table := halves()
	return func(bits uint64) quad {
		return quad{float64(table[uint16(bits)]), float64(table[uint16(bits>>16)])}
	}
}

// bfloat16Value returns the value of a bfloat16.
func bfloat16Value(bits uint32) float64 { return float64(math.Float32frombits(bits)) }

func decodeBFloat16(bits uint64) quad {
	return quad{bfloat16Value(uint32(bits) << 16), bfloat16Value(uint32(bits) &^ 0xffff)}
}

// decodeTF32 ignores the bits that tf32 does not have.
func decodeTF32(bits uint64) quad { return decodeFloat32(bits &^ 0x1fff) }

func decodeFloat32(bits uint64) quad { return quad{float64(math.Float32frombits(uint32(bits)))} }
func decodeFloat64(bits uint64) quad { return quad{math.Float64frombits(bits)} }

func decodeSigned(bits uint64) quad {
	return quad{float64(int8(bits)), float64(int8(bits >> 8)), float64(int8(bits >> 16)), float64(int8(bits >> 24))}
}

func decodeUnsigned(bits uint64) quad {
	return quad{float64(uint8(bits)), float64(uint8(bits >> 8)), float64(uint8(bits >> 16)), float64(uint8(bits >> 24))}
}

func decodeInteger(bits uint64) quad { return quad{float64(int32(bits))} }

// encoderOf returns how results are stored. Integers wrap around, or saturate if finite is set.
// Their sums are exact in float64.
func encoderOf(t ptx.Type, finite bool) encoder {
	switch t {
	case ptx.F16:
		return arith.RoundHalf
	case ptx.F32:
		return func(x float64) uint64 { return arith.Canonical32(float32(x)) }
	case ptx.F64:
		return math.Float64bits
	}
	if finite {
		return func(x float64) uint64 { return uint64(uint32(int32(max(math.MinInt32, min(math.MaxInt32, x))))) }
	}
	return func(x float64) uint64 { return uint64(uint32(int64(x))) }
}
