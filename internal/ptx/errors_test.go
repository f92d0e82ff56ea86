package ptx

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

const head = ".version 8.4\n.target sm_90\n.address_size 64\n"

// kernel wraps statements in a kernel; the first one is on line 7.
func kernel(statements string) string {
	return head + ".global .b32 g[4]; .shared .b32 s[4]; .func (.param .b32 r) f (.param .b64 a);\n" +
		".visible .entry k(.param .u64 in) {\n" +
		".reg .pred %p<4>; .reg .b16 %h<4>; .reg .b32 %r<4>; .reg .b64 %rd<4>; .reg .f32 %f<4>; .reg .f64 %fd<4>;\n" +
		statements + "\n}\n"
}

// statementErrors are invalid statements with the expected error. NVIDIA's assembler also refuses
// them, except those marked lenient, which are valid PTX but not supported here.
var statementErrors = []struct {
	statement, want string
	lenient         bool
}{
	{"foo.bar.b32 %r1;", "line 7, column 1: unknown instruction 'foo.bar.b32'", false},
	{"  @%p1 frob %r1;", "line 7, column 8: unknown instruction 'frob'", false},
	{
		"mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%f1}, {%r1}, {%r2}, {%f2};",
		"line 7, column 50: a vector of 1 elements, expected 4", false,
	},
	{
		"mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%f0,%f1,%f2,%f3}, {%r0,%r1}, %r2, {%f0,%f1,%f2,%f3};",
		"line 7, column 80: expected a vector of 1 elements", false,
	},
	{
		"mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%f0,%f1,%f2,%f3}, {%r0,%f1,%r1,%r2}, {%r0,%r1}, " +
			"{%f0,%f1,%f2,%f3};",
		"line 7, column 76: '%f1' of type .f32 cannot be a .tf32 operand", false,
	},
	{
		"mma.sync.aligned.m16n8k16.row.col.f32.f16.bf16.f32 {%f0,%f1,%f2,%f3}, {%r0,%r1,%r2,%r3}, {%r0,%r1}, " +
			"{%f0,%f1,%f2,%f3};",
		"line 7, column 1: instruction 'mma.sync.aligned.m16n8k16.row.col.f32.f16.bf16.f32' is not supported", false,
	},
	{
		"mma.sync.aligned.m8n8k4.row.col.f32.f16.f16.f32 {%f1}, {%r1}, {%r2}, {%f2};",
		"line 7, column 1: instruction 'mma.sync.aligned.m8n8k4.row.col.f32.f16.f16.f32' is not supported", true,
	},
	{
		"mma.sp.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%f0};",
		"line 7, column 1: instruction 'mma.sp.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32' is not supported", false,
	},
	{
		"ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%r1}, [s];",
		"line 7, column 42: a vector of 1 elements, expected 2",
		false,
	},
	{
		"ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r1}, [g];",
		"line 7, column 49: 'g' is in state space .global, not .shared",
		false,
	},
	{
		"cp.async.cg.shared.global [%r1], [%rd1], 8;",
		"line 7, column 42: cp.async.ca copies 4, 8 or 16 bytes, cp.async.cg 16",
		false,
	},
	{
		"cp.async.ca.shared.global [%r1], [%rd1], 16, 20;",
		"line 7, column 46: expected how many of the 16 bytes are read, or a predicate", false,
	},
	{
		"cp.async.ca.shared.global [%r1], [s], 16;",
		"line 7, column 34: 's' is in state space .shared, not .global",
		false,
	},
	{"cp.async.ca.shared.global [%r1], 16;", "line 7, column 1: 'cp.async' takes 3 to 4 operands, found 2", false},
	{"cp.async.wait_group %r1;", "line 7, column 21: expected a number of groups", false},
	{
		"cp.async.bulk.commit_group;",
		"line 7, column 1: instruction 'cp.async.bulk.commit_group' is not supported",
		true,
	},
	{".reg .e4m3x2 %t;", "line 7, column 6: expected a type, found '.e4m3x2'", false},
	{".reg .tf32 %t;", "line 7, column 6: expected a type, found '.tf32'", false},
	{"cvt.rna.tf32.f32 %f1, %f2;", "line 7, column 18: '%f1' of type .f32 cannot be a .tf32 operand", false},
	{"add.foo.f32 %f1, %f2, %f3;", "line 7, column 1: illegal modifier '.foo' in 'add.foo.f32'", false},
	{
		"add.rz.f16 %h1, %h2, %h3;",
		"line 7, column 1: illegal combination of modifiers and types in 'add.rz.f16'",
		false,
	},
	{"cvt.u32.f32 %r1, %f1;", "line 7, column 1: illegal combination of modifiers and types in 'cvt.u32.f32'", false},
	{
		"setp.lt.b32 %p1, %r1, %r2;",
		"line 7, column 1: illegal combination of modifiers and types in 'setp.lt.b32'",
		false,
	},
	{
		"atom.global.add.s64 %rd1, [%rd2], %rd3;",
		"line 7, column 1: illegal combination of modifiers and types in 'atom.global.add.s64'",
		false,
	},
	{"add.u32 %r1, %r2;", "line 7, column 1: 'add' takes 3 operands, found 2", false},
	{"ret %r1;", "line 7, column 1: 'ret' takes 0 operands, found 1", false},
	{"bar.sync 0, 32, 4;", "line 7, column 1: 'bar' takes 1 to 2 operands, found 3", false},
	{"bar.sync 16;", "line 7, column 1: barrier 16 is out of range, there are 16", false},
	{"bar.sync 0, 33;", "line 7, column 1: thread count 33 of a barrier is not a multiple of the warp size", false},
	{"add.u32 %r1, %f2, %r3;", "line 7, column 14: '%f2' of type .f32 cannot be a .u32 operand", false},
	{"add.u32 %r1, %rd2, %r3;", "line 7, column 14: '%rd2' of type .b64 cannot be a .u32 operand", false},
	{"add.f32 %f1, %f2, 1;", "line 7, column 19: constant does not fit type .f32", false},
	{"add.s32 %r1, %r2, 1.5;", "line 7, column 19: constant does not fit type .s32", false},
	{"add.s32 %r1, %r2, %tid.x;", "line 7, column 19: special register '%tid.x' is not allowed here", false},
	{
		"mov.u32 %r1, %envreg3;",
		"line 7, column 14: unsupported special register '%envreg3' cannot be a .u32 operand",
		true,
	},
	{"mov.u32 %r1, %clock64;", "line 7, column 14: special register '%clock64' cannot be read as .u32", false},
	{"mov.u32 %r9, 0;", "line 7, column 9: undeclared name '%r9' cannot be a destination", false},
	{"mov.u32 %r01, 0;", "line 7, column 9: undeclared name '%r01' cannot be a destination", false},
	{"mov.u32 5, %r1;", "line 7, column 9: a constant cannot be a destination", false},
	{"mov.f32 %f1, g;", "line 7, column 14: the address of 'g' does not fit type .f32", false},
	{"mov.u32 , 5;", "line 7, column 9: an operand is missing before ','", false},
	{"add.u32 %r1, %r2, ;", "line 7, column 19: an operand is missing before ';'", false},
	{"lop3.b32 %r1, %r1, %r2, %r3, %r0;", "line 7, column 30: expected a constant from 0 to 255", false},
	{"add.u32 %r1|%p1, %r2, %r3;", "line 7, column 9: unexpected '|'", false},
	{"add.u32 %r1, !%r2, %r3;", "line 7, column 14: '!' needs a predicate", false},
	{"ld.shared.u32 %r1, [g];", "line 7, column 20: 'g' is in state space .global, not .shared", false},
	{"ld.global.u32 %r1, [nowhere];", "line 7, column 21: undeclared name 'nowhere'", false},
	{"ld.global.u32 %r1, [%f1];", "line 7, column 20: a register of type .f32 cannot be an address", false},
	{"ld.global.u32 %r1, %rd1;", "line 7, column 20: expected an address, found '%rd1'", false},
	{"ld.global.v2.u32 %r1, [%rd1];", "line 7, column 18: expected a vector of 2 elements", false},
	{"ld.global.v2.u32 {%r1, %r2, %r3}, [%rd1];", "line 7, column 18: a vector of 3 elements, expected 2", false},
	{
		"ld.global.v4.u64 {%rd0, %rd1, %rd2, %rd3}, [s];",
		"line 7, column 44: 's' is in state space .shared, not .global",
		false,
	},
	{
		"ld.shared.v4.u64 {%rd0, %rd1, %rd2, %rd3}, [s];",
		"line 7, column 1: illegal combination of modifiers and types in 'ld.shared.v4.u64'",
		false,
	},
	{"st.param.u64 [in], %rd1;", "line 7, column 14: cannot write to parameter 'in'", false},
	{"st.const.u32 [%rd1], %r1;", "line 7, column 1: illegal modifier '.const' in 'st.const.u32'", false},
	{"mov.b64 %rd1, {%r1, %r2, %r3};", "line 7, column 15: cannot move .b64 as 3 elements", false},
	{"mov.b64 {%r1, %h2}, %rd1;", "line 7, column 15: '%h2' of type .b16 cannot be a .b32 operand", false},
	{"@%r1 bra L;", "line 7, column 2: '%r1' is not a predicate", false},
	{"@%q bra L;", "line 7, column 2: undeclared name '%q'", false},
	{"bra nowhere;", "line 7, column 5: undeclared label 'nowhere'", false},
	{"{ inner: ret; }\nbra inner;", "line 8, column 5: undeclared label 'inner'", false},
	{"L: ret;\nL: ret;", "line 8, column 1: duplicate declaration of 'L', first declared at line 7, column 1", false},
	{
		".reg .b32 %r<2>;",
		"line 7, column 11: duplicate declaration of '%r<2>', first declared at line 6, column 46",
		false,
	},
	{".reg .b32 %r1;", "line 7, column 11: duplicate declaration of '%r1', first declared at line 6, column 46", false},
	{".reg .v2 .f32 %v;", "line 7, column 6: vector registers ('.reg .v2') are not supported", true},
	{".reg .b128 %q;", "line 7, column 12: registers of type .b128 are not supported", true},
	{".reg .b32 %x<4000000000>;", "line 7, column 11: 4000000000 registers '%x': more than 1048576", false},
	{".local .b8 big[1000000000000000];", "line 7, column 16: bad dimension 1000000000000000", false},
	{"call (%r1), f, (%r2);", "line 7, column 17: '%r2' does not fit parameter 'a' of 8 bytes", false},
	{"call (%r1), f, (%rd1, %rd2);", "line 7, column 13: call with 2 arguments, expected 1", false},
	{"call f, (%rd1);", "line 7, column 6: call with 0 return values, expected 1", false},
	{"call (%r1), g, (%rd1);", "line 7, column 13: 'g' is not a function", false},
	{"call (%r1), %rd1, (%rd2);", "line 7, column 13: an indirect call needs a 64-bit register and a prototype", false},
	{"call k, (%rd2);", "line 7, column 6: 'k' is a kernel", true},
	{"brx.idx %r1, L;\nL:", "line 7, column 14: expected a .branchtargets list, found undeclared name 'L'", false},
	{"add.u32 %r1, %r2, 0x;", "line 7, column 19: '0x' is not a constant", false},
	{"add.u32 %r1, %r2, 089;", "line 7, column 19: '089' is not a constant", false},
	{"add.f32 %f1, %f2, 0f123;", "line 7, column 19: '0f123' is not a constant", false},
	{"add.u32 %r1, %r2, 1/0;", "line 7, column 20: division by zero", false},
	{"add.u32 %r1, %r2, %r3", "line 8, column 1: expected ';', found '}'", false},
	{"add.u32 %r1, %r2 %r3;", "line 7, column 18: expected ';', found '%r3'", false},
	{"ld.u32 %r1, [%rd1;", "line 7, column 18: expected ']', found ';'", false},
	{"/* no end", "line 7, column 1: expected an instruction, found a comment without end", false},
	{".weird 5;", "line 7, column 1: directive '.weird' is not supported", false},
}

func TestStatementErrors(t *testing.T) {
	for _, test := range statementErrors {
		_, err := Parse(kernel(test.statement))
		if got := firstError(err); got != test.want {
			t.Errorf("%s\n got %s\nwant %s", test.statement, got, test.want)
		}
	}
}

func firstError(err error) string {
	var e *Error
	if errors.As(err, &e) {
		return e.Error()
	}
	return fmt.Sprint(err)
}

// TestAssemblerRefuses checks that statements refused here are not valid PTX.
func TestAssemblerRefuses(t *testing.T) {
	for i, test := range statementErrors {
		if test.lenient {
			continue
		}
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			if assemble(t, kernel(test.statement)) == nil {
				t.Errorf("the assembler takes %s", test.statement)
			}
		})
	}
}

func TestModuleErrors(t *testing.T) {
	for _, test := range []struct{ text, want string }{
		{"", "line 1, column 1: expected '.version' first, found end of text"},
		{".target sm_90", "line 1, column 1: expected '.version' first, found '.target'"},
		{".version 8", "line 1, column 10: '8' is not a PTX version"},
		{".version 8.0\n.target sm_90\n.address_size 32\n", "line 3, column 15: address size 32 is not supported, only 64"},
		{head + ".alias f, g;", "line 4, column 1: directive '.alias' is not supported"},
		{head + ".global .texref t;", "line 4, column 9: expected a type, found '.texref'"},
		{
			head + ".global .b32 x;\n.global .b32 x;",
			"line 5, column 14: duplicate declaration of 'x', first declared at line 4, column 14",
		},
		{
			head + ".extern .global .b32 x;\n.global .b64 x;",
			"line 5, column 14: 'x' differs from its declaration at line 4, column 22",
		},
		{head + ".global .b32 x[];", "line 4, column 14: 'x' needs a size"},
		{head + ".global .b32 x[2] = {1, 2, 3};", "line 4, column 28: too many values for 'x'"},
		{head + ".global .b32 x[2][2] = {{1, 2, 3}};", "line 4, column 34: too many values for a row of 'x'"},
		{head + ".global .b32 x[2] = {{1}, 2};", "line 4, column 22: too many braces for 'x'"},
		{head + ".global .b32 x = 1.0e;", "line 4, column 18: '1.0e' is not a constant"},
		{head + ".global .s32 x = 1.5;", "line 4, column 18: constant does not fit type .s32"},
		{head + ".global .b8 x = 0xFF(y);", "line 4, column 17: mask operators on addresses are not supported"},
		{head + ".global .u64 x = y;", "line 4, column 18: undeclared name 'y'"},
		{head + ".global .f32 y; .global .f32 x = y;", "line 4, column 34: an address does not fit type .f32"},
		{head + ".shared .b32 x = 1;", "line 4, column 14: 'x' cannot have an initial value"},
		{head + ".local .b32 x;", "line 4, column 13: 'x': .local and .param variables belong in a function"},
		{head + ".global .align 3 .b32 x;", "line 4, column 16: alignment 3 is not a power of two"},
		{head + ".global .pred x;", "line 4, column 15: a predicate cannot be in memory"},
		{head + ".entry k(.reg .b32 x, .foo y) {ret;}", "line 4, column 23: expected '.param' or '.reg', found '.foo'"},
		{
			head + ".entry k() .reqnctapercluster 2 {ret;}",
			"line 4, column 31: directive '.reqnctapercluster' is not supported",
		},
		{head + ".entry k() .maxntid 0 {ret;}", "line 4, column 21: bad block dimension 0"},
		{
			head + ".func f(.param .b32 a);\n.func f(.param .b64 a) {ret;}",
			"line 5, column 7: 'f' differs from its declaration at line 4, column 7",
		},
		{
			head + ".entry k() {ret;}\n.entry k() {ret;}",
			"line 5, column 8: duplicate declaration of 'k', first declared at line 4, column 8",
		},
		{head + ".entry k() {ret;", "line 4, column 17: expected '}', found end of text"},
		{head + "}", "line 4, column 1: unexpected '}'"},
		{
			head + ".entry k() {" + strings.Repeat("{", 300) + strings.Repeat("}", 300) + "}",
			"line 4, column 269: nested deeper than 256",
		},
		{head + ".global .b32 x = " + strings.Repeat("(", 300), "line 4, column 146: nested deeper than 256"},
	} {
		_, err := Parse(test.text)
		if got := firstError(err); got != test.want {
			t.Errorf("%s\n got %s\nwant %s", strings.TrimPrefix(test.text, head), got, test.want)
		}
	}
}

// TestErrorsGoOn checks that each error is reported once, and that later errors are reported, too.
func TestErrorsGoOn(t *testing.T) {
	text := kernel(
		"foo;\nadd.u32 %r1, {%r2, %x}, 1;\nmov.u32 %r1, %r2;\n{ bad.b32 %r1; }\nld.v2.u32 {%q, %r2}, [%rd1];\nret;",
	) +
		".entry l(.wrong) { nonsense; }\n.entry m() { worse; }\n"
	_, err := Parse(text)
	want := `line 7, column 1: unknown instruction 'foo'
line 8, column 14: a vector cannot be a .u32 operand
line 10, column 3: unknown instruction 'bad.b32'
line 11, column 12: undeclared name '%q' cannot be a destination
line 14, column 10: expected '.param' or '.reg', found '.wrong'
line 15, column 14: unknown instruction 'worse'`
	if fmt.Sprint(err) != want {
		t.Errorf("got\n%v\nwant\n%s", err, want)
	}
	_, err = Parse(kernel(strings.Repeat("foo;\n", 100)))
	var list ErrorList
	if !errors.As(err, &list) || len(list) != maxErrors {
		t.Errorf("%d errors, want %d", len(list), maxErrors)
	}
}
