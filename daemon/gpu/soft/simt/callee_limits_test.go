package simt_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/phos-gpu/phos/daemon/gpu/soft/simt"
	"github.com/phos-gpu/phos/hijack/abi"
)

// onlyCallee returns a kernel k that calls a function f(n) by its address with the thread's number,
// gets %r4, and goes on with some instructions.
func onlyCallee(name, function, then string) string {
	return function + `
.visible .global .align 8 .u64 table_` + name + `[1] = { f };
.visible .entry ` + name + `(.param .u64 out)
{` + prologue + `
	proto: .callprototype (.param .b32 _) _ (.param .b32 _);
	ld.global.u64 %rd5, [table_` + name + `];
	{ .param .b32 a; .param .b32 b; st.param.b32 [a], %r1; call (b), %rd5, (a), proto; ld.param.b32 %r4, [b]; }
	` + then + `
	st.global.u32 [%rd2], %r4; ret; }
`
}

// f returns a function with a body that gets its parameter in %r1 and returns %r2.
func f(body string) string {
	return ".visible .func (.param .b32 r) f(.param .b32 n) { .reg .b32 %r<9>; .reg .b64 %rd<9>; .reg .pred %p<3>;\n" +
		"ld.param.u32 %r1, [n];\n" + body + "\nst.param.b32 [r], %r2;\nret; }\n"
}

// runOnly runs a kernel in one block and returns what its threads have written.
func runOnly(t *testing.T, m *machine, program *simt.Program, name string, threads uint32) ([]uint32, error) {
	t.Helper()
	k, err := program.Kernel(name)
	if err != nil {
		return nil, err
	}
	out := m.alloc(4 * uint64(threads))
	err = simt.NewEngine(simt.Options{}).Run(t.Context(), k, simt.Launch{
		Grid: [3]uint32{1, 1, 1}, Block: [3]uint32{threads, 1, 1}, Params: params(out), Cooperative: true,
	}, m.memory, nil)
	return m.read32(out, int(threads)), err
}

// TestCalleeHas checks what a function that is called by address has: local and shared memory of
// its own, also where its body is read late, and the special registers of a cooperative launch.
func TestCalleeHas(t *testing.T) {
	for name, test := range map[string]struct {
		function string
		good     func(got uint32, thread int) bool
	}{
		"local memory": {
			f(".local .align 4 .b8 big[100000]; st.local.u32 [big+99996], %r1; ld.local.u32 %r2, [big+99996];"),
			func(got uint32, thread int) bool { return got == uint32(thread) },
		},
		"shared memory": {
			f(`.shared .align 4 .b8 own[128]; mov.u32 %r3, own; shl.b32 %r4, %r1, 2; add.u32 %r3, %r3, %r4;
				st.shared.u32 [%r3], %r1; ld.shared.u32 %r2, [%r3];`),
			func(got uint32, thread int) bool { return got == uint32(thread) },
		},
		"a workspace": {f("mov.u32 %r2, %envreg2;"), func(got uint32, _ int) bool { return got != 0 }},
	} {
		for when, link := range map[string]func(*machine, ...string) (*simt.Program, error){
			"read at once": (*machine).linkTexts, "read when called": (*machine).outlined,
		} {
			t.Run(name+", "+when, func(t *testing.T) {
				m := newMachine(t)
				program, err := link(m, onlyCallee("k", test.function, ""))
				if err != nil {
					t.Fatal(err)
				}
				got, err := runOnly(t, m, program, "k", 32)
				for thread, value := range got {
					if !test.good(value, thread) {
						t.Fatalf("%v, thread %d: %d", err, thread, value)
					}
				}
				if err != nil {
					t.Error(err)
				}
			})
		}
	}
}

// TestLanesMeetAgain: lanes that leave a callee early meet the others behind the call.
func TestLanesMeetAgain(t *testing.T) {
	early := f(`mov.u32 %r2, %r1; and.b32 %r3, %r1, 1; setp.eq.u32 %p1, %r3, 0; st.param.b32 [r], %r2;
		@%p1 ret; add.u32 %r2, %r2, 100;`)
	m := newMachine(t)
	program, err := m.linkTexts(onlyCallee("k", early, "setp.ge.u32 %p1, %r4, 0; vote.ballot.b32 %r4, %p1;"))
	if err != nil {
		t.Fatal(err)
	}
	got, err := runOnly(t, m, program, "k", 32)
	if err != nil || slices.ContainsFunc(got, func(ballot uint32) bool { return ballot != 0xffffffff }) {
		t.Errorf("%v: ballots %#x", err, got)
	}
	if program, err = newMachine(t).linkTexts(onlyCallee("k", early, "bar.sync 1, 64;")); err != nil {
		t.Fatal(err)
	}
	if _, err := runOnly(t, m, program, "k", 48); err != nil {
		t.Error(err)
	}
}

// TestBadBodyStaysBad: a body with an error is refused by each kernel that comes to it.
func TestBadBodyStaysBad(t *testing.T) {
	bad := strings.Replace(f("mov.u32 %r2, 7; frobnicate.u32 %r2, %r1;"), ".visible", ".weak", 1)
	m := newMachine(t)
	program, err := m.outlined(onlyCallee("a", bad, ""), onlyCallee("b", bad, ""))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"a", "b", "a"} {
		got, err := runOnly(t, m, program, name, 4)
		if !errors.Is(err, abi.IllegalInstruction) || !strings.Contains(err.Error(), "frobnicate") {
			t.Errorf("kernel %s: %v, %v", name, err, got)
		}
	}
	direct := ".visible .entry NAME(.param .u64 out) {" + prologue +
		"{ .param .b32 a; .param .b32 b; st.param.b32 [a], %r1; call (b), f, (a); ld.param.b32 %r4, [b]; } ret; }\n"
	program, err = m.outlined(bad + strings.Replace(direct, "NAME", "a", 1) + strings.Replace(direct, "NAME", "b", 1))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"a", "b"} {
		if _, err := program.Kernel(name); err == nil || !strings.Contains(err.Error(), "frobnicate") {
			t.Errorf("kernel %s: %v", name, err)
		}
	}
}

// TestRegisterParameters: what a caller by address leaves in memory, such a function does not read.
func TestRegisterParameters(t *testing.T) {
	m := newMachine(t)
	program, err := m.linkTexts(onlyCallee("k", ".func (.reg .b32 r) f(.reg .b32 n) { mov.u32 r, n; ret; }", ""))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := runOnly(t, m, program, "k", 1); !errors.Is(err, abi.IllegalInstruction) {
		t.Errorf("got %v", err)
	}
}
