package simt_test

import (
	"context"
	"encoding/binary"
	"errors"
	"math/bits"
	"math/rand/v2"
	"testing"

	"github.com/phos-gpu/phos/daemon/gpu/soft/simt"
	"github.com/phos-gpu/phos/hijack/abi"
)

// each runs instructions on many inputs. They read their operands from %a, %b, %c and leave a
// 32-bit result in %y.
func each(t *testing.T, instructions string, inputs [][3]uint32) []uint32 {
	t.Helper()
	m := newMachine(t)
	out := m.alloc(uint64(16 * len(inputs)))
	raw := make([]byte, 16*len(inputs))
	for i, in := range inputs {
		for n, v := range in {
			binary.LittleEndian.PutUint32(raw[16*i+4*n:], v)
		}
	}
	if _, err := m.memory.WriteAt(raw, int64(out)); err != nil {
		t.Fatal(err)
	}
	text := body(`
	.reg .b32 %a, %b, %c, %y;
	mov.u32 %r2, %ctaid.x;
	mad.lo.u32 %r2, %r2, 64, %r1;
	mul.wide.u32 %rd2, %r2, 16;
	add.s64 %rd2, %rd1, %rd2;
	ld.global.u32 %a, [%rd2];
	ld.global.u32 %b, [%rd2+4];
	ld.global.u32 %c, [%rd2+8];
	` + instructions + `
	st.global.u32 [%rd2+12], %y;
	ret;`)
	if len(inputs)%64 != 0 {
		t.Fatalf("%d inputs are not whole blocks", len(inputs))
	}
	err := simt.NewEngine(simt.Options{Cores: 1}).Run(
		context.Background(),
		m.kernel(m.link(text), "k"),
		simt.Launch{
			Grid:   [3]uint32{uint32(len(inputs) / 64), 1, 1},
			Block:  [3]uint32{64, 1, 1},
			Params: params(out),
		},
		m.memory,
		nil,
	)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := m.memory.ReadAt(raw, int64(out)); err != nil {
		t.Fatal(err)
	}
	results := make([]uint32, len(inputs))
	for i := range results {
		results[i] = binary.LittleEndian.Uint32(raw[16*i+12:])
	}
	return results
}

// wantResults compares instructions with a function of the three operands.
func wantResults(t *testing.T, instructions string, inputs [][3]uint32, want func(a, b, c uint32) uint32) {
	t.Helper()
	for i, got := range each(t, instructions, inputs) {
		in := inputs[i]
		if w := want(in[0], in[1], in[2]); got != w {
			t.Fatalf("%s of %#x, %#x, %#x: got %#x, want %#x", instructions, in[0], in[1], in[2], got, w)
		}
	}
}

// words are random operands, some small, some with few bits.
func words(n int) [][3]uint32 {
	r := rand.New(rand.NewPCG(11, uint64(n)))
	inputs := make([][3]uint32, n)
	for i := range inputs {
		for k := range inputs[i] {
			switch v := r.Uint32(); r.IntN(4) {
			case 0:
				inputs[i][k] = v % 40
			case 1:
				inputs[i][k] = v & r.Uint32() & r.Uint32()
			default:
				inputs[i][k] = v
			}
		}
	}
	return inputs
}

func TestDotProducts(t *testing.T) {
	value := func(v uint32, width, i int, signed bool) int64 {
		part := int64(v >> (width * i) & (1<<width - 1))
		if signed && part >= 1<<(width-1) {
			part -= 1 << width
		}
		return part
	}
	for _, types := range []string{"u32.u32", "u32.s32", "s32.u32", "s32.s32"} {
		signedA, signedB := types[0] == 's', types[4] == 's'
		wantResults(t, "dp4a."+types+" %y, %a, %b, %c;", words(512), func(a, b, c uint32) uint32 {
			sum := int64(c)
			for i := range 4 {
				sum += value(a, 8, i, signedA) * value(b, 8, i, signedB)
			}
			return uint32(sum)
		})
		for first, half := range map[int]string{0: "lo", 2: "hi"} {
			wantResults(t, "dp2a."+half+"."+types+" %y, %a, %b, %c;", words(512), func(a, b, c uint32) uint32 {
				return uint32(int64(c) + value(a, 16, 0, signedA)*value(b, 8, first, signedB) +
					value(a, 16, 1, signedA)*value(b, 8, first+1, signedB))
			})
		}
	}
}

func TestPermuteModes(t *testing.T) {
	// Which of the eight bytes b:a becomes byte i, by what the modes are for.
	for mode, source := range map[string]func(i, c int) int{
		"f4e":  func(i, c int) int { return c + i },
		"b4e":  func(i, c int) int { return (c - i) & 7 },
		"rc8":  func(_, c int) int { return c },
		"ecl":  func(i, c int) int { return max(i, c) },
		"ecr":  func(i, c int) int { return min(i, c) },
		"rc16": func(i, c int) int { return i&1 + c&1*2 },
	} {
		wantResults(t, "prmt.b32."+mode+" %y, %a, %b, %c;", words(256), func(a, b, c uint32) (result uint32) {
			bytes := binary.LittleEndian.AppendUint32(binary.LittleEndian.AppendUint32(nil, a), b)
			for i := range 4 {
				result |= uint32(bytes[source(i, int(c&3))]) << (8 * i)
			}
			return result
		})
	}
}

func TestFindNthSet(t *testing.T) {
	wantResults(t, `and.b32 %b, %b, 31;
	shr.s32 %c, %c, 27;
	fns.b32 %y, %a, %b, %c;`, words(1024), func(mask, base, c uint32) uint32 {
		base, n := base&31, int32(c)>>27
		candidates := []uint32{}
		for i := range uint32(32) {
			position := base + i
			if n < 0 {
				position = base - i
			}
			if position < 32 && mask>>position&1 == 1 {
				candidates = append(candidates, position)
			}
		}
		switch nth := max(n, -n); {
		case n == 0 && mask>>base&1 == 1:
			return base
		case n != 0 && int(nth) <= len(candidates):
			return candidates[nth-1]
		}
		return 0xffffffff
	})
}

func TestExtendAndMask(t *testing.T) {
	for _, mode := range []string{"clamp", "wrap"} {
		for _, kind := range []string{"u32", "s32"} {
			wantResults(t, "szext."+mode+"."+kind+" %y, %a, %b;", words(512), func(a, b, _ uint32) uint32 {
				if mode == "clamp" && b >= 32 {
					return a
				}
				low := uint32(1)<<(b&31) - 1
				if sign := a & low & (low ^ low>>1); kind == "s32" && sign != 0 {
					return a&low | ^low
				}
				return a & low
			})
		}
		wantResults(t, "bmsk."+mode+".b32 %y, %a, %b;", words(512), func(a, b, _ uint32) (mask uint32) {
			if mode == "wrap" {
				a, b = a&31, b&31
			}
			for i := range uint64(32) {
				if i >= uint64(a) && i < uint64(a)+uint64(b) {
					mask |= 1 << i
				}
			}
			return mask
		})
	}
}

func TestShiftAndAdd(t *testing.T) {
	for _, mode := range []string{"clamp", "wrap"} {
		amount := func(b uint32) uint32 {
			if mode == "wrap" {
				return b % 32
			}
			return b // Go's shifts clamp
		}
		wantResults(
			t,
			"vshr.u32.u32.u32."+mode+".add %y, %a, %b, %c;",
			words(512),
			func(a, b, c uint32) uint32 { return a>>amount(b) + c },
		)
		wantResults(
			t,
			"vshl.u32.u32.u32."+mode+".add %y, %a, %b, %c;",
			words(512),
			func(a, b, c uint32) uint32 { return a<<amount(b) + c },
		)
	}
}

func TestIndexedBranch(t *testing.T) {
	// Every lane goes its own way; two targets are the same, and code falls from one to the next.
	wantResults(t, `
	.reg .b32 %i;
TARGETS: .branchtargets ONE, TWO, THREE, ONE, FOUR;
	rem.u32 %i, %a, 5;
	mov.u32 %y, 0;
	brx.idx %i, TARGETS;
FOUR:	add.u32 %y, %y, 1000;
ONE:	add.u32 %y, %y, 1;
TWO:	add.u32 %y, %y, 10;
	bra END;
THREE:	add.u32 %y, %y, 100;
END:	popc.b32 %i, %b;
	add.u32 %y, %y, %i;`, words(256), func(a, b, _ uint32) uint32 {
		return []uint32{11, 10, 100, 11, 1011}[a%5] + uint32(bits.OnesCount32(b))
	})
}

func TestAssertion(t *testing.T) {
	m := newMachine(t)
	_, printed, err := m.run(header+`
.extern .func __assertfail(.param .b64 m, .param .b64 f, .param .b32 l, .param .b64 g, .param .b64 s);
.global .align 1 .b8 message[6] = {120, 32, 60, 32, 57, 0};
.global .align 1 .b8 file[5] = {107, 46, 99, 117, 0};
.global .align 1 .b8 function[3] = {107, 40, 0};
.visible .entry k(.param .u64 out)
{`+prologue+`
	setp.lt.u32 %p1, %r1, 9;
	@%p1 bra FINE;
	{
	.param .b64 m; .param .b64 f; .param .b32 l; .param .b64 g; .param .b64 s;
	mov.u64 %rd3, message; cvta.global.u64 %rd3, %rd3; st.param.b64 [m], %rd3;
	mov.u64 %rd3, file; cvta.global.u64 %rd3, %rd3; st.param.b64 [f], %rd3;
	st.param.b32 [l], 42;
	mov.u64 %rd3, function; cvta.global.u64 %rd3, %rd3; st.param.b64 [g], %rd3;
	st.param.b64 [s], 1;
	call.uni __assertfail, (m, f, l, g, s);
	}
FINE:	ret;
}`, 1, 64, 256)
	if want := "k.cu:42: k(: block: [0,0,0], thread: [9,0,0] Assertion `x < 9` failed.\n"; printed != want {
		t.Errorf("printed %q, want %q", printed, want)
	}
	var fault *simt.Fault
	if !errors.As(err, &fault) || !errors.Is(err, abi.Assert) || fault.Thread != [3]uint32{9} ||
		fault.Detail != "x < 9" {
		t.Errorf("%v", err)
	}
}
