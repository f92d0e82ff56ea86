package simt_test

import (
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/phos-gpu/phos/daemon/gpu/soft/simt"
	"github.com/phos-gpu/phos/hijack/abi"
	"github.com/phos-gpu/phos/internal/ptx"
)

// outlined links texts like those of a library: bodies are read when they are needed.
func (m *machine) outlined(texts ...string) (*simt.Program, error) {
	m.t.Helper()
	modules := make([]*ptx.Module, len(texts))
	for i, text := range texts {
		var err error
		if modules[i], err = ptx.Outline(header + text); err != nil {
			m.t.Fatal(err)
		}
	}
	return simt.Link(modules, m.place, m.memory)
}

// calls are functions that are called by address, and call others so. Each keeps values in
// registers and in local memory over its calls, and has constants and special registers of its own.
const calls = `
.extern .shared .align 4 .b8 kept[128];
.extern .global .align 8 .u64 table[4];
.visible .func (.param .b32 result) fib(.param .b32 n)
{ .reg .b32 %r<9>; .reg .b64 %rd<3>; .reg .pred %p<2>;
	proto: .callprototype (.param .b32 _) _ (.param .b32 _);
	ld.param.u32 %r1, [n];
	mov.u32 %r2, %r1;
	setp.lt.u32 %p1, %r1, 2;
	@%p1 bra DONE;
	ld.global.u64 %rd1, [table];
	sub.u32 %r3, %r1, 1;
	{ .param .b32 a; .param .b32 b; st.param.b32 [a], %r3; call (b), %rd1, (a), proto; ld.param.b32 %r4, [b]; }
	sub.u32 %r3, %r1, 2;
	{ .param .b32 a; .param .b32 b; st.param.b32 [a], %r3; call (b), %rd1, (a), proto; ld.param.b32 %r5, [b]; }
	add.u32 %r2, %r4, %r5;
DONE:
	st.param.b32 [result], %r2; ret; }
.visible .func (.param .b32 result) thirds(.param .b32 n)
{ .reg .b32 %r<9>; .reg .b64 %rd<3>; .local .align 4 .b32 own[2];
	proto: .callprototype (.param .b32 _) _ (.param .b32 _);
	ld.param.u32 %r1, [n];
	mul.lo.u32 %r2, %r1, 333;
	st.local.u32 [own+4], %r2;
	rem.u32 %r3, %r1, 10;
	ld.global.u64 %rd1, [table];
	{ .param .b32 a; .param .b32 b; st.param.b32 [a], %r3; call (b), %rd1, (a), proto; ld.param.b32 %r4, [b]; }
	ld.local.u32 %r5, [own+4];
	add.u32 %r6, %r2, %r5;
	add.u32 %r6, %r6, %r4;
	mov.u32 %r7, %tid.x;
	add.u32 %r6, %r6, %r7;
	st.param.b32 [result], %r6; ret; }
.visible .func (.param .b32 result) shares(.param .b32 n)
{ .reg .b32 %r<9>;
	ld.param.u32 %r1, [n];
	rem.u32 %r2, %r1, 32;
	shl.b32 %r2, %r2, 2;
	mov.u32 %r3, kept;
	add.u32 %r3, %r3, %r2;
	st.shared.u32 [%r3], %r1;
	ld.shared.u32 %r4, [%r3];
	add.u32 %r4, %r4, 70000;
	st.param.b32 [result], %r4; ret; }
.visible .func (.param .b32 result) multicast(.param .b32 n)
{ .reg .b32 %r<3>; .reg .b64 %rd<2>;
	ld.param.u32 %r1, [n];
	.reg .pred %p<2>;
	setp.eq.u32 %p1, %r1, 3;
	mov.u64 %rd1, table;
	@%p1 multimem.ld_reduce.relaxed.sys.global.add.u32 %r1, [%rd1];
	st.param.b32 [result], %r1; ret; }
`

// callers calls the function with the number of the thread modulo so many.
func callers(functions int) string {
	return `
.visible .shared .align 4 .b8 kept[128];
.extern .func (.param .b32 result) fib(.param .b32 n);
.extern .func (.param .b32 result) thirds(.param .b32 n);
.extern .func (.param .b32 result) shares(.param .b32 n);
.extern .func (.param .b32 result) multicast(.param .b32 n);
.visible .global .align 8 .u64 table[4] = { fib, thirds, shares, multicast };
.visible .entry other(.param .u64 out) { ret; }
.visible .entry k(.param .u64 out)
{` + prologue + fmt.Sprintf(`
	proto: .callprototype (.param .b32 _) _ (.param .b32 _);
	rem.u32 %%r2, %%r1, %d;
	mul.wide.u32 %%rd3, %%r2, 8;
	mov.u64 %%rd4, table;
	add.s64 %%rd4, %%rd4, %%rd3;
	ld.global.u64 %%rd5, [%%rd4];
	mov.u32 %%r3, 0;
	mov.u32 %%r5, 0;
AGAIN:
	{ .param .b32 a; .param .b32 b; st.param.b32 [a], %%r1; call (b), %%rd5, (a), proto; ld.param.b32 %%r4, [b]; }
	add.u32 %%r3, %%r3, %%r4;
	add.u32 %%r5, %%r5, 1;
	setp.lt.u32 %%p1, %%r5, 2;
	@%%p1 bra AGAIN;
	st.global.u32 [%%rd2], %%r3;
	ret;
}`, functions)
}

// model is what thread number n gets of one call.
func model(n uint32, functions uint32) uint32 {
	fib := func(n uint32) uint32 {
		a, b := uint32(0), uint32(1)
		for range n {
			a, b = b, a+b
		}
		return a
	}
	switch n % functions {
	case 0:
		return fib(n)
	case 1:
		return 2*333*n + fib(n%10) + n
	}
	return n + 70000
}

// TestCallees calls functions by address, which call others so, from lanes that go different ways.
func TestCallees(t *testing.T) {
	const threads = 21
	for name, link := range map[string]func(*machine, ...string) (*simt.Program, error){
		"read at once": (*machine).linkTexts, "read when called": (*machine).outlined,
	} {
		t.Run(name, func(t *testing.T) {
			m := newMachine(t)
			program, err := link(m, callers(3), calls)
			if err != nil {
				t.Fatal(err)
			}
			k, err := program.Kernel("k")
			if err != nil {
				t.Fatal(err)
			}
			out := m.alloc(4 * threads)
			for range 2 { // the second launch finds what the first has lowered
				m.launch(k, out, threads)
				for n, got := range m.read32(out, threads) {
					if want := 2 * model(uint32(n), 3); got != want {
						t.Errorf("thread %d: %d, want %d", n, got, want)
					}
				}
			}
		})
	}
}

// TestRefusedCallee calls functions that cannot be executed: the launch ends with a fault that says
// why, and only if they are called.
func TestRefusedCallee(t *testing.T) {
	m := newMachine(t)
	program, err := m.outlined(callers(4), calls)
	if err != nil {
		t.Fatal(err)
	}
	wantFault(t, m, program, 3, "")
	wantFault(t, m, program, 4, "the software GPU has no multicast memory")

	unknown := strings.Replace(calls, "rem.u32 %r2, %r1, 32;", "frobnicate.u32 %r2, %r1, 32;", 1)
	if program, err = m.outlined(callers(4), unknown); err != nil {
		t.Fatal(err)
	}
	wantFault(t, m, program, 2, "")
	wantFault(t, m, program, 3, "unknown instruction 'frobnicate.u32'")
}

// wantFault runs the kernel with so many threads, of which the last calls what none before has.
func wantFault(t *testing.T, m *machine, program *simt.Program, threads uint32, want string) {
	t.Helper()
	err := simt.NewEngine(simt.Options{}).Run(t.Context(), m.kernel(program, "k"), simt.Launch{
		Grid: [3]uint32{1, 1, 1}, Block: [3]uint32{threads, 1, 1}, Params: params(m.alloc(4 * uint64(threads))),
	}, m.memory, nil)
	switch {
	case want == "" && err != nil:
		t.Errorf("%d threads: %v", threads, err)
	case want != "" && (!errors.Is(err, abi.IllegalInstruction) || !strings.Contains(err.Error(), want)):
		t.Errorf("%d threads: got %v, want %q", threads, err, want)
	}
}

// TestAddressesOfFunctions takes addresses in bodies that are read in another order: they must be
// the same, because a program that is restored has them in its memory.
func TestAddressesOfFunctions(t *testing.T) {
	taking := func(name string) string {
		return ".func f" + name + "() { ret; }\n.visible .entry " + name + "(.param .u64 out)\n{" + prologue +
			"mov.u64 %rd3, f" + name + ";\nst.global.u64 [%rd1], %rd3;\nret;\n}\n"
	}
	addresses := func(order ...string) map[string]uint64 {
		m := newMachine(t)
		program, err := m.outlined(taking("a") + taking("b"))
		if err != nil {
			t.Fatal(err)
		}
		found := map[string]uint64{}
		for _, name := range order {
			out := m.alloc(8)
			m.launch(m.kernel(program, name), out, 1)
			found[name] = m.read64(out, 1)[0]
		}
		return found
	}
	first, second := addresses("a", "b"), addresses("b", "a")
	if !maps.Equal(first, second) || first["a"] == first["b"] {
		t.Errorf("%v, and in the other order %v", first, second)
	}
}
