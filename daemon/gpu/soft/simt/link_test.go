package simt_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/phos-gpu/phos/daemon/gpu"
	"github.com/phos-gpu/phos/daemon/gpu/soft/simt"
	"github.com/phos-gpu/phos/hijack/abi"
	"github.com/phos-gpu/phos/internal/ptx"
)

// linkTexts links texts without their header. The test ends if a text alone is wrong.
func (m *machine) linkTexts(texts ...string) (*simt.Program, error) {
	m.t.Helper()
	modules := make([]*ptx.Module, len(texts))
	for i, text := range texts {
		var err error
		if modules[i], err = ptx.Parse(header + text); err != nil {
			m.t.Fatalf("%v in\n%s", err, text)
		}
	}
	return simt.Link(modules, m.place, m.memory)
}

// TestMismatchedDeclarations links a text that declares something with one that defines it
// differently. nvlink refuses these: "Prototype doesn't match", "Size doesn't match".
func TestMismatchedDeclarations(t *testing.T) {
	const entry = ".visible .entry k(.param .u64 out) { .reg .b32 %r<9>; .reg .b64 %a<4>; .param .b32 a; .param .b32 " +
		"b; .param .b64 c; "
	for _, c := range []struct {
		name, user, provider, want string
	}{
		{
			"result declared, not defined", ".extern .func (.param .b32 r) f(.param .b32 n);" + entry +
				"call (b), f, (a); ret; }",
			".visible .func f(.param .b32 n) { ret; }", "return values",
		},
		{
			"result defined, not declared", ".extern .func f(.param .b32 n);" + entry + "call f, (a); ret; }",
			".visible .func (.param .b32 r) f(.param .b32 n) { st.param.b32 [r], 1; ret; }", "return values",
		},
		{
			"more parameters declared", ".extern .func f(.param .b32 n, .param .b64 m);" + entry + "call f, (a, c); ret; }",
			".visible .func f(.param .b32 n) { ret; }", "parameters",
		},
		{
			"fewer parameters declared", ".extern .func f(.param .b32 n);" + entry + "call f, (a); ret; }",
			".visible .func f(.param .b32 n, .param .b64 m) { ret; }", "parameters",
		},
		{
			"larger parameter declared", ".extern .func f(.param .b64 n);" + entry + "call f, (c); ret; }",
			".visible .func f(.param .b32 n) { ret; }", "sizes of its parameters",
		},
		{
			"larger result declared", ".extern .func (.param .b64 r) f();" + entry + "call (c), f; ret; }",
			".visible .func (.param .b32 r) f() { st.param.b32 [r], 1; ret; }", "sizes of its return values",
		},
		{
			"function defined as kernel", ".extern .func f(.param .b32 n);" + entry + "call f, (a); ret; }",
			".visible .entry f(.param .b32 n) { ret; }", ".entry",
		},
		{
			"weak definition with another signature",
			".weak .func f(.param .b64 n) { ret; }" + entry + "call f, (c); ret; }",
			".visible .func f(.param .b32 n) { ret; }", "sizes of its parameters",
		},
		{
			"variable of another size", ".extern .global .align 4 .b8 v[4096];" + entry + "mov.u64 %a1, v; ret; }",
			".visible .global .align 4 .b8 v[16];", "4096 bytes",
		},
		{
			"variable in another space", ".extern .const .align 4 .b8 v[16];" + entry + "mov.u64 %a1, v; ret; }",
			".visible .global .align 4 .b8 v[16];", "state space",
		},
		{
			"initial value of an undefined function", ".extern .func f(); .visible .global .u64 v = f;" + entry + "ret; }",
			".visible .global .u32 w;", "not defined",
		},
		{
			"builtin with too few arguments", ".extern .func (.param .b32 r) vprintf(.param .b32 n);" + entry +
				"call (b), vprintf, (a); ret; }", "", "vprintf",
		},
		{
			"builtin with too many arguments", ".extern .func malloc(.param .b32 n, .param .b32 m);" + entry +
				"call malloc, (a, b); ret; }", "", "malloc",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, texts := range [][]string{{c.user, c.provider}, {c.provider, c.user}} {
				_, err := newMachine(t).linkTexts(texts...)
				if !errors.Is(err, abi.InvalidPTX) || !strings.Contains(err.Error(), c.want) {
					t.Errorf("got %v, want INVALID_PTX with %q", err, c.want)
				}
			}
		})
	}
}

// TestMatchingDeclarations links declarations that differ from definitions in ways that do not
// matter, and runs the result.
func TestMatchingDeclarations(t *testing.T) {
	m := newMachine(t)
	program, err := m.linkTexts(`
.extern .func (.param .b32 r) add(.param .b32 x, .param .align 8 .b8 y[8]);
.extern .global .align 4 .b8 table[];
.weak .global .align 4 .u32 w = 1;
.weak .global .align 4 .u32 w2 = 8;
.common .global .align 4 .b8 c[4];
.visible .entry k(.param .u64 out)
{`+prologue+`
	.param .b32 a; .param .align 8 .b8 b[8]; .param .b32 s;
	st.param.b32 [a], %r1;
	st.param.b32 [b], 10;
	st.param.b32 [b+4], 20;
	call (s), add, (a, b);
	ld.param.b32 %r2, [s];
	ld.global.u32 %r3, [table+4];
	add.u32 %r2, %r2, %r3;
	ld.global.u32 %r3, [w];
	add.u32 %r2, %r2, %r3;
	ld.global.u32 %r3, [w2];
	add.u32 %r2, %r2, %r3;
	st.global.u32 [%rd2], %r2;
	ret;
}`, `
.visible .global .align 16 .b8 table[8] = {0, 0, 0, 0, 100, 0, 0, 0};
.visible .global .align 4 .u32 w = 1000;
.weak .global .align 4 .u32 w2 = 9;
.common .global .align 4 .b8 c[400];
.visible .func (.param .b32 r) add(.param .align 16 .b32 x, .param .align 4 .b8 y[8])
{ .reg .b32 %r<5>;
	ld.param.b32 %r1, [x]; ld.param.b32 %r2, [y]; ld.param.b32 %r3, [y+4];
	add.u32 %r1, %r1, %r2; add.u32 %r1, %r1, %r3; st.param.b32 [r], %r1; ret; }`)
	if err != nil {
		t.Fatal(err)
	}
	if got := program.Globals()["c"].Bytes; got != 400 {
		t.Errorf("common variable: got %d bytes, want those of the largest definition", got)
	}
	out := m.alloc(256)
	m.launch(m.kernel(program, "k"), out, 32)
	for i, got := range m.read32(out, 32) {
		if want := uint32(i + 30 + 100 + 1000 + 8); got != want {
			t.Fatalf("thread %d: got %d, want %d", i, got, want)
		}
	}
}

// launch runs one block of a kernel with one pointer. A fault ends the test.
func (m *machine) launch(k *simt.Kernel, out uint64, block uint32) {
	m.t.Helper()
	err := simt.NewEngine(simt.Options{}).Run(context.Background(), k, simt.Launch{
		Grid: [3]uint32{1, 1, 1}, Block: [3]uint32{block, 1, 1}, Params: params(out),
	}, m.memory, nil)
	if err != nil {
		m.t.Fatal(err)
	}
}

// TestManyArguments passes more arguments and results in registers than any frame keeps.
func TestManyArguments(t *testing.T) {
	const count = 40
	list := func(format, separator string) string {
		var all []string
		for i := range count {
			all = append(all, strings.ReplaceAll(format, "#", fmt.Sprint(i)))
		}
		return strings.Join(all, separator)
	}
	wantEach(t, header+".func ("+list(".reg .b32 o#", ", ")+") f("+list(".reg .b32 i#", ", ")+") { "+
		list("add.u32 o#, i#, #;", " ")+" ret; }\n.visible .entry k(.param .u64 out)\n{"+prologue+
		".reg .b32 %x<40>, %y<40>;\n"+list("mul.lo.u32 %x#, %r1, #;", " ")+
		"call ("+list("%y#", ", ")+"), f, ("+list("%x#", ", ")+");\nmov.u32 %r2, 0;\n"+
		list("xor.b32 %y#, %y#, #; mad.lo.u32 %r2, %r2, 31, %y#;", "\n")+"st.global.u32 [%rd2], %r2; ret; }\n",
		64, func(tid uint32) (sum uint32) {
			for i := range uint32(count) {
				sum = sum*31 + ((tid*i + i) ^ i)
			}
			return sum
		})
}

// TestMutualRecursion runs functions that call each other and keep values over the calls.
func TestMutualRecursion(t *testing.T) {
	function := func(name, other string, factor int) string {
		return fmt.Sprintf(`
.func (.reg .b32 r) %s(.reg .b32 n)
{
	.reg .pred %%p; .reg .b32 %%k, %%m;
	mov.u32 r, 1;
	setp.eq.u32 %%p, n, 0;
	@%%p ret;
	mul.lo.u32 %%k, n, %d;
	sub.u32 %%m, n, 1;
	call (r), %s, (%%m);
	add.u32 r, r, %%k;
	ret;
}
`, name, factor, other)
	}
	declare := ".func (.reg .b32 r) a(.reg .b32 n);\n.func (.reg .b32 r) b(.reg .b32 n);\n.func (.reg .b32 r) c(.reg " +
		".b32 n);\n"
	wantEach(t, header+declare+function("a", "b", 3)+function("b", "c", 5)+function("c", "a", 7)+
		".visible .entry k(.param .u64 out)\n{"+prologue+"call (%r2), a, (%r1);\nst.global.u32 [%rd2], %r2;\nret;\n}\n",
		64, func(tid uint32) uint32 {
			sum := uint32(1)
			for i := tid; i > 0; i-- {
				sum += i * []uint32{3, 5, 7}[(tid-i)%3]
			}
			return sum
		})
}

// TestTooLarge links kernels that need more than any device has. Each must be refused at load, not
// when memory runs out.
func TestTooLarge(t *testing.T) {
	many := func(count int, format string) string {
		return strings.Repeat(format, count)
	}
	const k = ".visible .entry k() { .reg .b32 %r; .reg .b64 %a; "
	functions := func(n int, locals string) string {
		var b strings.Builder
		fmt.Fprintf(&b, ".func f0() { %s ret; }\n", locals)
		for i := 1; i < n; i++ {
			fmt.Fprintf(&b, ".func f%d() { %s call f%d; ret; }\n", i, locals, i-1)
		}
		fmt.Fprintf(&b, "%scall f%d; ret; }", k, n-1)
		return b.String()
	}
	for name, c := range map[string]struct{ text, want string }{
		"local memory":            {k + ".local .b8 x[1048576]; mov.u32 %r, x; ret; }", "local memory"},
		"local memory of callees": {functions(600, ".local .b8 x[16777216]; .reg .b32 %r; mov.u32 %r, x;"), "local memory"},
		"shared memory":           {".shared .b8 x[1099511627776];" + k + "mov.u32 %r, x; ret; }", "shared memory"},
		"shared memory beyond 48 KiB": {
			".shared .b8 x[49153];" + k + "mov.u32 %r, x; ret; }", "shared memory",
		},
		"extern shared memory": {".extern .shared .b8 x[1099511627776];" + k + "mov.u32 %r, x; ret; }", "shared memory"},
		"registers":            {k + ".reg .b64 %b<1000000>; mov.u64 %b1, 0; ret; }", "registers"},
		"registers of callees": {functions(30, ".reg .b64 %b<1000000>;"), "registers"},
		"predicates of callees": {
			functions(3000, ".reg .pred %p<1000000>;"), "registers",
		},
		"call parameters": {k + many(20, "{ .param .b8 x[16777216]; } ") + "ret; }", "local memory"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := newMachine(t).linkTexts(c.text)
			if !errors.Is(err, abi.InvalidPTX) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want INVALID_PTX for %s", err, c.want)
			}
		})
	}
}

// TestKernelAsFunction calls a kernel with more parameters through a pointer.
func TestKernelAsFunction(t *testing.T) {
	_, _, err := newMachine(t).run(header+`
.visible .entry big(.param .align 8 .b8 p[4000])
{ .reg .b32 %r; ld.param.b32 %r, [p+3996]; ret; }
.visible .entry k(.param .u64 out)
{`+prologue+`
	P: .callprototype _ ();
	mov.u64 %rd3, big;
	call %rd3, P;
	ret;
}`, 1, 32, 4)
	if !errors.Is(err, abi.InvalidPC) {
		t.Errorf("got %v, want INVALID_PC", err)
	}
}

// signature is how a text declares a function.
type signature struct {
	params, returns []string // types of parameters, with # for the name
	kernel          bool
}

// hostileText returns a text of declarations, definitions and calls whose names other texts declare
// in other ways than the usual one. Each text alone is correct.
func hostileText(r *rand.Rand, number int, usual map[string]signature) string {
	var b strings.Builder
	sizes := []string{".b8 #", ".b32 #", ".b64 #", ".align 8 .b8 #[24]", ".b8 #[1]", ".align 16 .b8 #[4096]", ".b16 #"}
	pick := func(list ...string) string { return list[r.IntN(len(list))] }
	functions := map[string]signature{}
	names := []string{"f0", "f1", "f2", "f3", "malloc", "free", "vprintf", "__assertfail"}
	list := func(types []string, prefix string) string {
		var all []string
		for i, t := range types {
			all = append(all, ".param "+strings.ReplaceAll(t, "#", fmt.Sprint(prefix, i)))
		}
		return "(" + strings.Join(all, ", ") + ")"
	}
	some := func(most int) (types []string) {
		for range r.IntN(most + 1) {
			types = append(types, pick(sizes...))
		}
		return types
	}
	signatureOf := func(name string) signature {
		if _, known := usual[name]; !known {
			usual[name] = signature{params: some(3), returns: some(1)}
		}
		if r.IntN(8) > 0 {
			return usual[name]
		}
		return signature{params: some(3), returns: some(1)}
	}
	for range 1 + r.IntN(5) {
		name := pick(names...)
		if _, seen := functions[name]; seen {
			continue
		}
		f := signatureOf(name)
		functions[name] = f
		if len(f.returns) == 0 {
			fmt.Fprintf(&b, ".extern .func %s%s;\n", name, list(f.params, "p"))
		} else {
			fmt.Fprintf(&b, ".extern .func %s %s%s;\n", list(f.returns, "r"), name, list(f.params, "p"))
		}
	}
	for i := range r.IntN(3) {
		fmt.Fprintf(&b, "%s %s .align %s .b8 v%d[%s];\n", pick(".extern", ".visible", ".weak", ".common"),
			pick(".global", ".const", ".global"), pick("1", "4", "16"), i, pick("100", "100", "4096"))
	}
	for i := range r.IntN(2) {
		fmt.Fprintf(&b, "%s .shared .align 4 .b8 s%d[%s];\n", pick(".extern", ".visible", ".weak"), i,
			pick("4", "400", "40000"))
	}
	calls := func() {
		for _, name := range names {
			f, known := functions[name]
			if !known || f.kernel || r.IntN(2) == 0 {
				continue
			}
			b.WriteString("{ ")
			var in, out []string
			for i, t := range f.params {
				in = append(in, fmt.Sprint("a", i))
				fmt.Fprintf(&b, ".param %s; ", strings.ReplaceAll(t, "#", in[i]))
			}
			for i, t := range f.returns {
				out = append(out, fmt.Sprint("b", i))
				fmt.Fprintf(&b, ".param %s; ", strings.ReplaceAll(t, "#", out[i]))
			}
			b.WriteString("call ")
			if len(out) > 0 {
				fmt.Fprintf(&b, "(%s), ", strings.Join(out, ", "))
			}
			b.WriteString(name)
			if len(in) > 0 {
				fmt.Fprintf(&b, ", (%s)", strings.Join(in, ", "))
			}
			b.WriteString("; }\n")
		}
	}
	for range r.IntN(4) {
		name := pick(names...)
		f := signatureOf(name)
		if declared, seen := functions[name]; seen {
			if declared.kernel {
				continue
			}
			f = declared
		} else if r.IntN(4) == 0 {
			f.kernel, f.returns = true, nil
		}
		defined := fmt.Sprintf("// %s defined", name)
		if strings.Contains(b.String(), defined) {
			continue
		}
		functions[name] = f
		kind := ".func"
		if f.kernel {
			kind = ".entry"
		}
		returns := ""
		if len(f.returns) > 0 {
			returns = list(f.returns, "r") + " "
		}
		fmt.Fprintf(&b, "%s\n%s %s %s%s%s { .local .b8 x[%s]; .reg .b32 %%r<4>; mov.u32 %%r1, x;\n", defined,
			pick(".visible", ".weak", ".visible"), kind, returns, name, list(f.params, "p"), pick("4", "4000", "100000"))
		if len(f.params) > 0 {
			b.WriteString("ld.param.b8 %r2, [p0];\n")
		}
		if len(f.returns) > 0 {
			b.WriteString("st.param.b8 [r0], 1;\n")
		}
		calls()
		b.WriteString("ret; }\n")
	}
	fmt.Fprintf(&b, ".visible .entry k%d(%s) { .reg .b32 %%r<4>;\n", number, pick("", ".param .u64 p"))
	calls()
	b.WriteString("ret; }\n")
	return b.String()
}

// TestLinkHostile links random texts that do not fit together and runs what can be linked. Nothing
// may panic: a panic of the linker or the interpreter would end a worker.
func TestLinkHostile(t *testing.T) {
	linked := 0
	for seed := range uint64(4000) {
		if !linkHostile(t, seed, &linked) {
			return
		}
	}
	if linked < 100 {
		t.Errorf("only %d programs could be linked", linked)
	}
}

// linkHostile makes one round of TestLinkHostile. It returns false if the test has failed.
func linkHostile(t *testing.T, seed uint64, linked *int) bool {
	r := rand.New(rand.NewPCG(seed, 29))
	var modules []*ptx.Module
	var texts []string
	usual := map[string]signature{}
	for i := range 1 + r.IntN(3) {
		text := hostileText(r, i, usual)
		module, err := ptx.Parse(header + text)
		if err != nil {
			t.Fatalf("seed %d: %v in\n%s", seed, err, text)
		}
		modules, texts = append(modules, module), append(texts, text)
	}
	defer func() {
		if failure := recover(); failure != nil {
			t.Fatalf("seed %d: panic: %v in\n%s", seed, failure, strings.Join(texts, "\n---\n"))
		}
	}()
	m := newMachine(t)
	defer m.memory.Close()
	program, err := simt.Link(modules, m.place, m.memory)
	if err != nil {
		if gpu.Code(err) != abi.InvalidPTX {
			t.Errorf("seed %d: got %v, want INVALID_PTX", seed, err)
		}
		return !t.Failed()
	}
	*linked++
	for _, name := range program.Kernels() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		err := simt.NewEngine(simt.Options{Cores: 1}).Run(ctx, m.kernel(program, name), simt.Launch{
			Grid: [3]uint32{2, 1, 1}, Block: [3]uint32{33, 1, 1}, Params: make([]byte, 32<<10),
		}, m.memory, nil)
		cancel()
		var fault *simt.Fault
		if errors.As(err, &fault) && fault.Stack != nil {
			t.Errorf("seed %d: %v\n%s\nin\n%s", seed, err, fault.Stack, strings.Join(texts, "\n---\n"))
		}
	}
	return !t.Failed()
}
