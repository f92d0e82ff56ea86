package lanes

import (
	"math/rand/v2"
	"testing"

	"github.com/phos-gpu/phos/daemon/gpu/soft/simt/arith"
	"github.com/phos-gpu/phos/internal/ptx"
)

// interesting values hit the special cases of integers and floats of both widths.
var interesting = []uint64{
	0, 1, 2, 31, 32, 33, 63, 64, 65, 0x7fffffff, 0x80000000, 0x80000001, 0xffffffff, 0x3f800000, 0xbf800000, 0x7f800000,
	0xff800000, 0x7fc00001, 0x7f7fffff, 0x00800000, 0x007fffff, 0x33000000, 0x4b000001, 0x3f800001, 0x3ff0000000000000,
	0xbff0000000000000, 0x7ff0000000000000, 0x7ff8000000000000, 0x8000000000000000, 0x7fffffffffffffff, 0xffffffffffffffff,
}

func operand(random *rand.Rand) uint64 {
	switch random.IntN(3) {
	case 0:
		return interesting[random.IntN(len(interesting))]
	case 1: // floats of similar size, so that sums are rounded
		return uint64(0x3f000000+random.Uint32N(0x2000000)) | random.Uint64()<<63>>32
	}
	return random.Uint64() >> random.UintN(64)
}

// instructions returns all combinations that a Find function might support.
func instructions() (list []*ptx.Inst) {
	types := []ptx.Type{ptx.B32, ptx.U32, ptx.S32, ptx.F32, ptx.B64, ptx.U64, ptx.S64, ptx.F64}
	ops := []ptx.Op{
		ptx.OpAdd, ptx.OpSub, ptx.OpMul, ptx.OpMad, ptx.OpFma, ptx.OpNeg, ptx.OpAbs, ptx.OpMin, ptx.OpMax, ptx.OpAnd,
		ptx.OpOr, ptx.OpXor, ptx.OpNot, ptx.OpShl, ptx.OpShr,
	}
	for _, t := range types {
		for _, op := range ops {
			for _, mode := range []ptx.Mode{ptx.ModeNone, ptx.MulLo, ptx.MulHi, ptx.MulWide} {
				in := &ptx.Inst{Op: op, Type: t, Mode: mode, Src: make([]ptx.Operand, 2)}
				if op == ptx.OpMad || op == ptx.OpFma {
					in.Src = make([]ptx.Operand, 3)
				}
				list = append(list, in)
			}
		}
		for _, from := range types {
			for _, round := range []ptx.Round{ptx.RoundDefault, ptx.RN} {
				list = append(
					list,
					&ptx.Inst{Op: ptx.OpCvt, Type: t, SrcType: from, Round: round, Src: make([]ptx.Operand, 1)},
				)
			}
		}
	}
	return list
}

// trial holds random operands in both widths.
type trial struct {
	a32, b32, c32 V32
	a64, b64, c64 V64
}

func newTrial(random *rand.Rand) *trial {
	var t trial
	for i := range t.a32 {
		t.a64[i], t.b64[i], t.c64[i] = operand(random), operand(random), operand(random)
		if random.IntN(4) == 0 {
			t.b64[i] = t.a64[i]
		}
		t.a32[i], t.b32[i], t.c32[i] = uint32(t.a64[i]), uint32(t.b64[i]), uint32(t.c64[i])
	}
	return &t
}

// run applies the loop of an instruction, if there is one. It returns the results, and the operands
// for the scalar function.
func run(in *ptx.Inst, t *trial) (results, a, b, c []uint64, bits int) {
	var d32 V32
	var d64 V64
	wide := func(v *V32) (out []uint64) {
		for _, x := range v {
			out = append(out, uint64(x))
		}
		return out
	}
	if f := FindConvert(in); f != nil {
		f(&d32, &t.a32, &t.b32, &t.c32)
		return wide(&d32), wide(&t.a32), wide(&t.b32), wide(&t.c32), 32
	}
	if f := Find32(in); f != nil && in.Op != ptx.OpCvt {
		f(&d32, &t.a32, &t.b32, &t.c32)
		return wide(&d32), wide(&t.a32), wide(&t.b32), wide(&t.c32), 32
	}
	if f := FindNarrow(in); f != nil {
		f(&d32, &t.a64)
		return wide(&d32), t.a64[:], t.b64[:], t.c64[:], 32
	}
	if f := FindWiden(in); f != nil {
		f(&d64, &t.a32, &t.b32, &t.c64)
		return d64[:], wide(&t.a32), wide(&t.b32), t.c64[:], 64
	}
	if f := FindShift64(in); f != nil {
		f(&d64, &t.a64, &t.b32)
		return d64[:], t.a64[:], wide(&t.b32), t.c64[:], 64
	}
	if f := Find64(in); f != nil {
		f(&d64, &t.a64, &t.b64, &t.c64)
		return d64[:], t.a64[:], t.b64[:], t.c64[:], 64
	}
	return nil, nil, nil, nil, 0
}

// both runs a test with the processor's loops and with the portable ones.
func both(t *testing.T, test func(t *testing.T)) {
	t.Run("fast", test)
	kept := fast
	defer func() { fast = kept }()
	fast.loops32, fast.loops64, fast.widens, fast.shifts = nil, nil, nil, nil
	fast.compares, fast.compares2, fast.floatS32 = nil, nil, nil
	t.Run("portable", test)
}

func TestLoopsAgreeWithScalars(t *testing.T) { both(t, loopsAgree) }

func loopsAgree(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	tested := 0
	for _, in := range instructions() {
		f := arith.Lookup(in)
		if f == nil {
			continue // no such instruction
		}
		for range 200 {
			trial := newTrial(random)
			got, a, b, c, bits := run(in, trial)
			if got == nil {
				break
			}
			tested++
			for i := range got {
				want := f(a[i], b[i], c[i], 0)
				if bits == 32 {
					want = uint64(uint32(want))
				}
				if in.Type == ptx.F64 && bothNaN(got[i], want) {
					continue // the ISA does not define which NaN
				}
				if got[i] != want {
					t.Fatalf("%v of %#x, %#x, %#x: loop %#x, scalar %#x", in, a[i], b[i], c[i], got[i], want)
				}
			}
		}
	}
	if tested < 60*200 {
		t.Errorf("only %d loops tested", tested/200)
	}
}

func bothNaN(a, b uint64) bool { return a<<1 > 0xffe0000000000000 && b<<1 > 0xffe0000000000000 }

func TestComparisonsAgreeWithScalars(t *testing.T) { both(t, comparisonsAgree) }

func comparisonsAgree(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 6))
	for _, typ := range []ptx.Type{ptx.B32, ptx.U32, ptx.S32, ptx.F32, ptx.B64, ptx.U64, ptx.S64, ptx.F64} {
		for cmp := ptx.EQ; cmp <= ptx.NAN; cmp++ {
			in := &ptx.Inst{Op: ptx.OpSetp, Type: typ, Cmp: cmp}
			scalar := arith.Lookup(in)
			if scalar == nil {
				continue
			}
			for range 300 {
				trial := newTrial(random)
				checkComparison(t, in, trial, scalar)
			}
		}
	}
}

func checkComparison(t *testing.T, in *ptx.Inst, trial *trial, scalar arith.Func) {
	t.Helper()
	var answer uint32
	a, b := trial.a64, trial.b64
	f32, order32 := FindCompare32(in)
	f64, order64 := FindCompare64(in)
	order := order32
	switch {
	case f32 != nil && order.Swap:
		answer = f32(&trial.b32, &trial.a32)
	case f32 != nil:
		answer = f32(&trial.a32, &trial.b32)
	case f64 != nil && order64.Swap:
		answer = f64(&trial.b64, &trial.a64)
	case f64 != nil:
		answer = f64(&trial.a64, &trial.b64)
	default:
		return
	}
	if f64 != nil {
		order = order64
	}
	if order.Invert {
		answer = ^answer
	}
	for i := range a {
		x, y := a[i], b[i]
		if f32 != nil {
			x, y = uint64(trial.a32[i]), uint64(trial.b32[i])
		}
		if want := scalar(x, y, 0, 0); uint64(answer>>i&1) != want {
			t.Fatalf("%v of %#x, %#x: loop %d, scalar %d", in, x, y, answer>>i&1, want)
		}
	}
}
