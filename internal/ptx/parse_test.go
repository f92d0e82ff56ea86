package ptx

import (
	"math"
	"runtime"
	"strings"
	"testing"
)

// only parses a kernel with these statements and returns its first instruction.
func only(t *testing.T, statements string) *Inst {
	t.Helper()
	m, err := Parse(kernel(statements))
	if err != nil {
		t.Fatalf("%s\n%v", statements, err)
	}
	return &m.Func("k").Insts[0]
}

func TestImmediates(t *testing.T) {
	for _, test := range []struct {
		statement string
		want      uint64
	}{
		{"mov.u32 %r1, -1;", 0xffffffff},
		{"mov.s32 %r1, -1;", math.MaxUint64},
		{"mov.b32 %r1, 0xffffffffff;", 0xffffffff},
		{"mov.s16 %h1, 0x8000;", 0xffffffffffff8000},
		{"mov.u16 %h1, 70000;", 70000 - 65536},
		{"mov.b64 %rd1, 18446744073709551615;", math.MaxUint64},
		{"mov.s64 %rd1, 0x8000000000000000;", 1 << 63},
		{"mov.u32 %r1, 0B1011U;", 11},
		{"mov.u32 %r1, 0777;", 511},
		{"mov.f32 %f1, 0f3f800000;", 0x3f800000},
		{"mov.f32 %f1, 0F7F800001;", 0x7f800001}, // a signalling NaN keeps its bits
		{"mov.f32 %f1, 1.1;", uint64(math.Float32bits(1.1))},
		{"mov.f32 %f1, -2.5e-3;", uint64(math.Float32bits(-2.5e-3))},
		{"mov.f32 %f1, 0d3FF0000000000000;", 0x3f800000},
		{"mov.f64 %fd1, 0D3FF0000000000001;", 0x3ff0000000000001},
		{"mov.f64 %fd1, 0f3F800000;", 0x3ff0000000000000},
		{"mov.f64 %fd1, .5;", math.Float64bits(0.5)},
		{"mov.b32 %r1, 0f3F800000;", 0x3f800000},
		{"mov.pred %p1, 1;", 1},
		{"mov.u32 %r1, 2 + 3 * 4;", 14},
		{"mov.u32 %r1, (2 + 3) * 4 % 7;", 6},
		{"mov.u32 %r1, 1 << 4 | 3 ^ 1 & 3;", 18},
		{"mov.s32 %r1, -7 / 2;", math.MaxUint64 - 2},
		{"mov.s32 %r1, -7 >> 1;", math.MaxUint64 - 3},
		{"mov.u32 %r1, ~0 == -1 && 3 != 4 ? 10 : 20;", 10},
		{"mov.u32 %r1, !5 || 1 > 2;", 0},
		{"mov.b64 %rd1, -1 > 0;", 0},
		{"mov.b64 %rd1, -1 > 0U;", 1},
		{"mov.b64 %rd1, (.u64)-1 / 2;", math.MaxInt64},
		{"mov.u32 %r1, WARP_SZ - 1;", 31},
		{"mov.f64 %fd1, 1.0 / 4.0 + 0.5;", math.Float64bits(0.75)},
		{"st.global.u8 [%rd1], 300;", 44},
		{"mad.wide.s16 %r1, %h1, %h2, -5;", math.MaxUint64 - 4},
	} {
		inst := only(t, test.statement)
		if got := inst.Src[len(inst.Src)-1]; got.Kind != ImmOperand || got.Imm != test.want {
			t.Errorf("%s: %#x, want %#x", test.statement, got.Imm, test.want)
		}
	}
}

// TestDecoding checks the decoded form of instructions that are easy to get wrong.
func TestDecoding(t *testing.T) {
	inst := only(t, "@!%p3 ld.global.nc.L1::evict_last.v2.f32 {%f1, _}, [%rd1+-8];")
	if inst.Guard != (Guard{3, true}) || inst.Vec != 2 || inst.Type != F32 || inst.Space != Global ||
		inst.Addr.Offset != -8 || inst.Addr.Reg.Class != R64 || inst.Dst[1].Reg != NoReg {
		t.Errorf("ld: %+v", inst)
	}
	inst = only(t, "setp.ltu.or.f32 %p1|%p2, %f1, %f2, !%p0;")
	if inst.Cmp != LTU || inst.Bool != BoolOr || len(inst.Dst) != 2 || !inst.Src[2].Negated ||
		inst.Src[2].Reg.Class != Pred {
		t.Errorf("setp: %+v", inst)
	}
	inst = only(t, "cvt.rni.ftz.sat.s16.f32 %h1, %f1;")
	if inst.Type != S16 || inst.SrcType != F32 || inst.Round != RNI || inst.Flags != FTZ|Sat {
		t.Errorf("cvt: %+v", inst)
	}
	inst = only(t, "bar.red.and.pred %p1, 1, %p2;")
	if inst.Mode != BarRedAnd || len(inst.Src) != 3 || inst.Src[1].Kind != NoOperand ||
		inst.Src[2].Reg != (Reg{Pred, 2}) {
		t.Errorf("bar: %+v", inst)
	}
	inst = only(t, "mov.b64 {%r1, %r2}, %rd1;")
	if inst.Op != OpUnpack || inst.Vec != 2 || inst.Type != B64 || inst.SrcType != B32 || len(inst.Dst) != 2 {
		t.Errorf("unpack: %+v", inst)
	}
	inst = only(t, "atom.cas.b16 %h1, [%rd1], %h2, %h3;")
	if inst.Atom != AtomCAS || inst.Type != B16 || len(inst.Src) != 2 || inst.Space != Generic {
		t.Errorf("cas: %+v", inst)
	}
	inst = only(t, "subc.cc.u32 %r1, %r2, 0;")
	if inst.Op != OpSubc || inst.Flags != CC|CarryIn {
		t.Errorf("subc: %+v", inst)
	}
	inst = only(t, "ld.u32 %r1, [s+4];")
	if inst.Addr.Symbol.Name != "s" || inst.Addr.Reg != NoReg || inst.Addr.Offset != 4 {
		t.Errorf("ld: %+v", inst.Addr)
	}
	inst = only(t, "add.rn .ftz\n.f32 %f1, %f2, %f3;")
	if inst.Op != OpAdd || inst.Round != RN || inst.Flags != FTZ || inst.Pos != (Pos{Line: 7, Column: 1}) {
		t.Errorf("add: %+v", inst)
	}
}

// TestAnyOrder checks that modifiers are accepted in any order, except types, as in NVIDIA's
// assembler.
func TestAnyOrder(t *testing.T) {
	for _, pair := range [][2]string{
		{"add.rn.ftz.sat.f32 %f1, %f2, %f3;", "add.sat.f32.ftz.rn %f1, %f2, %f3;"},
		{"ld.volatile.global.v2.u32 {%r1, %r2}, [%rd1];", "ld.global.u32.volatile.v2 {%r1, %r2}, [%rd1];"},
		{"setp.lt.and.f32 %p1, %f1, %f2, %p2;", "setp.and.lt.f32 %p1, %f1, %f2, %p2;"},
	} {
		if a, b := only(t, pair[0]).String(), only(t, pair[1]).String(); a != b {
			t.Errorf("%s is not %s", a, b)
		}
	}
}

func TestScopes(t *testing.T) {
	m, err := Parse(
		kernel(
			"{ .param .b64 a; .param .b32 b; { .param .b64 c; } }\n{ .param .b32 d[3]; .reg .b32 %r<2>; mov.u32 %r0, %r1; " +
				"bra out; }\n" +
				"mov.u32 %r0, %r1;\n.reg .b32 %x1<3>, %x<2>;\nmov.u32 %x12, %x1;\nout:",
		),
	)
	if err != nil {
		t.Fatal(err)
	}
	f := m.Func("k")
	var offsets []uint64
	for _, v := range f.CallParams {
		offsets = append(offsets, v.Offset)
	}
	if len(offsets) != 4 || offsets[0] != 0 || offsets[1] != 8 || offsets[2] != 16 || offsets[3] != 0 ||
		f.CallParamBytes != 24 {
		t.Errorf("call parameters at %v of %d", offsets, f.CallParamBytes)
	}
	// Four registers %r, then %f and two inner %r, three %x1N and two %xN.
	want := []string{"mov.u32 %r8, %r9", "bra @4", "mov.u32 %r0, %r1", "mov.u32 %r12, %r14", "ret"}
	for i := range want {
		if got := f.Insts[i].String(); got != want[i] {
			t.Errorf("instruction %d is %s, want %s", i, got, want[i])
		}
	}
}

// TestRedeclaration checks that a definition completes an earlier declaration, under the same
// pointer.
func TestRedeclaration(t *testing.T) {
	m, err := Parse(head + `.extern .global .b32 v;
.visible .func (.param .b32 r) f (.param .b32 a);
.entry k() { .param .b32 r; .param .b32 a; .reg .b64 %d; mov.u64 %d, v; call (r), f, (a); ret; }
.visible .global .b32 v = 5;
.visible .func (.param .b32 r) f (.param .b32 a) { ret; }
`)
	if err != nil {
		t.Fatal(err)
	}
	k, f := m.Func("k"), m.Func("f")
	if len(m.Globals) != 1 || k.Insts[0].Src[0].Symbol != m.Globals[0] || m.Globals[0].Init[0] != 5 ||
		m.Globals[0].Linkage != Visible {
		t.Errorf("globals %+v", m.Globals[0])
	}
	if len(m.Funcs) != 2 || k.Insts[1].Call.Func != f || len(f.Insts) != 1 || f.Linkage != Visible {
		t.Errorf("functions %+v", f)
	}
}

// TestMemoryBounds parses small texts that ask for a lot of memory.
func TestMemoryBounds(t *testing.T) {
	for name, text := range map[string]string{
		"registers":   kernel(strings.Repeat("{ .reg .b32 %x<1000000>; }\n", 100)),
		"numbered":    kernel(strings.Repeat("{ .reg .b32 %x1<4000>; }\n", 1000)),
		"initialiser": head + strings.Repeat(".global .b8 x[60000000] = {1};\n", 100),
		"open":        head + ".global .b8 x[][30000000] = {" + strings.Repeat("{1},", 1000) + "{1}};",
		"braces":      head + ".global .b8 x = " + strings.Repeat("{", 1000000),
		"scopes":      head + ".entry k() " + strings.Repeat("{", 1000000),
		"not":         kernel("mov.pred %p1, " + strings.Repeat("!", 1000000) + "1;"),
		"pairs":       kernel("mov.pred " + strings.Repeat("%p1|", 100000) + "%p1;"),
		"choices":     kernel("mov.u32 %r1, " + strings.Repeat("1?", 100000)),
	} {
		t.Run(name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, err := Parse(text)
			runtime.ReadMemStats(&after)
			if err == nil {
				t.Error("accepted")
			}
			if used := after.TotalAlloc - before.TotalAlloc; used > 256<<20 {
				t.Errorf("took %d MiB", used>>20)
			}
		})
	}
}
