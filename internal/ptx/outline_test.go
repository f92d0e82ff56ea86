package ptx

import (
	"strings"
	"testing"

	"github.com/phos-gpu/phos/tests/golden"
)

// completed returns an outline with all of its bodies read.
func completed(t testing.TB, text string) *Module {
	t.Helper()
	m, err := Outline(text)
	if err != nil {
		t.Fatalf("outline: %v", err)
	}
	for _, f := range m.Funcs {
		if err := m.Complete(f); err != nil {
			t.Fatalf("complete %s: %v", f.Name, err)
		}
	}
	return m
}

// TestOutline reads all texts through their outlines.
func TestOutline(t *testing.T) {
	for _, file := range texts(t) {
		m := completed(t, read(t, file))
		if got, want := m.Dump(), read(t, strings.TrimSuffix(file, ".ptx")+".golden"); got != want {
			t.Errorf("%s by its outline, first difference:\n%s", file, golden.Difference(got, want))
		}
	}
}

func TestOutlineLeavesBodies(t *testing.T) {
	m, err := Outline(head + `
.extern .func (.param .b64 r) malloc (.param .b64 n);
.global .b32 before;
.entry good(.param .u64 p) { .reg .b32 %r<9>; // a brace in a comment: }
	.pragma "a brace in a string: }";
	{ mov.u32 %r1, %envreg2; }
	add.u32 %r2, %r1, %r1; ret; }
.entry bad() { frobnicate.b32 %r1; }
.entry holds() { .global .b32 inside; ret; }
.entry last() { .reg .b64 %a; mov.u64 %a, before; mov.u64 %a, after; ret; }
.global .b32 after;
`)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, f := range m.Funcs {
		if f.Defined() && len(f.Insts) == 0 {
			names = append(names, f.Name)
		}
	}
	// A body that declares a variable of the module is read at once.
	if got := strings.Join(names, " "); got != "good bad last" {
		t.Errorf("unread: %s", got)
	}
	if len(m.Globals) != 3 || !m.Declares("malloc") || m.Declares("free") || !m.Mentions("%envreg2") ||
		m.Mentions("%envreg") {
		t.Errorf("%d variables; malloc %v, free %v", len(m.Globals), m.Declares("malloc"), m.Declares("free"))
	}
	for _, f := range m.Funcs {
		err := m.Complete(f)
		if again := m.Complete(f); (err == nil) != (again == nil) || err != nil && err.Error() != again.Error() {
			t.Errorf("%s: first %v, then %v", f.Name, err, again)
		}
		if f.Name != "bad" && err != nil ||
			f.Name == "bad" &&
				(err == nil || err.Error() != "line 11, column 16: unknown instruction 'frobnicate.b32'") {
			t.Errorf("%s: %v", f.Name, err)
		}
	}
}

// TestOutlineHeads checks that errors outside of bodies are reported by Outline.
func TestOutlineHeads(t *testing.T) {
	for _, text := range []string{
		".entry k() { ret; } .entry k() { ret; }", ".entry k(.param .u65 x) { ret; }", ".entry k() { ret;", ".entry k() { /* ret; }",
		".global .b32 x; .global .b32 x;", ".entry k() { ret; } }",
	} {
		if _, err := Outline(head + text); err == nil {
			t.Errorf("%s: accepted", text)
		}
	}
}
