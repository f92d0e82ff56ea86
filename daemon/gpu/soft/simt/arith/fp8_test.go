package arith

import (
	"math"
	"testing"

	"github.com/phos-gpu/phos/internal/ptx"
)

// rounded holds conversions by PyTorch on the CPU: float8_e4m3fn, then float8_e5m2.
var rounded = []struct {
	from       float32
	e4m3, e5m2 uint64
}{
	{0, 0, 0},
	{float32(math.Copysign(0, -1)), 0x80, 0x80},
	{1, 0x38, 0x3c},
	{-1.5, 0xbc, 0xbe},
	{0.001, 1, 0x14},
	{0.002, 1, 0x18},
	{0x1p-9, 1, 0x18},
	{0x1.8p-9, 2, 0x1a},
	{0x1p-10, 0, 0x14},
	{0x1.19999ap-10, 1, 0x14},
	{0.0175, 9, 0x24},
	{3.3, 0x45, 0x43},
	{17, 0x58, 0x4c},
	{18, 0x59, 0x4c},
	{19, 0x5a, 0x4d},
	{20, 0x5a, 0x4d},
	{447, 0x7e, 0x5f},
	{448, 0x7e, 0x5f},
	{-300.5, 0xf9, 0xdd},
	{0.3, 0x2a, 0x35},
	{1e-5, 0, 1},
	{0x1p-16, 0, 1},
	{0x1p-17, 0, 0},
	{0x1.8p-16, 0, 2},
	{6.1e-5, 0, 4},
	// Too large: saturated, as the ISA defines .satfinite. PyTorch does not saturate float8_e4m3fn.
	{57344, 0x7e, 0x7b},
	{40000, 0x7e, 0x79},
	{1e9, 0x7e, 0x7b},
	{float32(math.Inf(-1)), 0xfe, 0xfb},
	{float32(math.NaN()), 0x7f, 0x7f},
}

func TestFP8(t *testing.T) {
	for _, c := range rounded {
		for to, want := range map[ptx.Type]uint64{ptx.E4M3X2: c.e4m3, ptx.E5M2X2: c.e5m2} {
			f := Lookup(&ptx.Inst{Op: ptx.OpCvt, Type: to, SrcType: ptx.F32, Round: ptx.RN, Flags: ptx.SatFinite})
			if got := f(uint64(math.Float32bits(c.from)), uint64(math.Float32bits(1)), 0, 0); got != want<<8|f(
				0x3f800000,
				0x3f800000,
				0,
				0,
			)&0xff {
				t.Errorf("%v is %#x in %v, want %#x", c.from, got>>8, to, want)
			}
		}
	}
	positive := Lookup(
		&ptx.Inst{Op: ptx.OpCvt, Type: ptx.E4M3X2, SrcType: ptx.F16X2, Round: ptx.RN, Flags: ptx.SatFinite | ptx.Relu},
	)
	if got := positive(0xbc004000, 0, 0, 0); got != 0x0040 {
		t.Errorf("-1 and 2 with .relu: got %#x", got)
	}
}

// TestFP8RoundTrip converts codes to float16 and back.
func TestFP8RoundTrip(t *testing.T) {
	halves := map[ptx.Type]map[uint64]uint64{ // of every 27th code, by PyTorch
		ptx.E4M3X2: {
			0:   0,
			27:  0x2d80,
			54:  0x3b00,
			81:  0x4880,
			108: 0x5600,
			135: 0xa300,
			162: 0xb100,
			189: 0xbe80,
			216: 0xcc00,
			243: 0xd980,
		},
		ptx.E5M2X2: {
			0:   0,
			27:  0x1b00,
			54:  0x3600,
			81:  0x5100,
			108: 0x6c00,
			135: 0x8700,
			162: 0xa200,
			189: 0xbd00,
			216: 0xd800,
			243: 0xf300,
		},
	}
	for from, want := range halves {
		back := Lookup(&ptx.Inst{Op: ptx.OpCvt, Type: ptx.F16X2, SrcType: from, Round: ptx.RN})
		forth := Lookup(&ptx.Inst{Op: ptx.OpCvt, Type: from, SrcType: ptx.F16X2, Round: ptx.RN, Flags: ptx.SatFinite})
		for code := range uint64(256) {
			got := back(code<<8|1, 0, 0, 0)
			if bits, ok := want[code]; ok && got>>16 != bits {
				t.Errorf("%v of %#x: got %#x, want %#x", from, code, got>>16, bits)
			}
			if again := forth(got, 0, 0, 0); fp8Formats[from].finite(code) && again != code<<8|1 {
				t.Errorf("%v of %#x: got %#x, which converts back to %#x", from, code, got>>16, again)
			}
		}
	}
	infinite := Lookup(&ptx.Inst{Op: ptx.OpCvt, Type: ptx.F16X2, SrcType: ptx.E5M2X2, Round: ptx.RN})
	if got := infinite(0x7cfc, 0, 0, 0); got != 0x7c00fc00 {
		t.Errorf("infinities: got %#x", got)
	}
}

func (e *fp8Format) finite(code uint64) bool { return int(code&0x7f) < len(e.positive) }
