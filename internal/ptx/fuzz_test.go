package ptx

import (
	"errors"
	"strings"
	"testing"

	"github.com/phos-gpu/phos/tests/golden"
)

// FuzzParse checks that arbitrary text never panics, and that accepted text is consistent.
func FuzzParse(f *testing.F) {
	for _, file := range texts(f) {
		f.Add(read(f, file))
	}
	for _, test := range statementErrors {
		f.Add(kernel(test.statement))
	}
	f.Add(head + ".global .b8 x[1099511627776] = {1};")
	f.Add(head + ".global .b8 x[][1099511627776][1099511627776] = {{1}};")
	f.Add(head + ".entry k() {" + strings.Repeat(".reg .b32 %a1<4096>;", 3) + "}")
	f.Add(kernel(strings.Repeat("{", 200) + "bra x;" + strings.Repeat("}", 200) + "x:"))
	f.Add(kernel("mov.b32 %r1, (((((1?2:3)?4:5)))) << 70;"))
	f.Fuzz(func(t *testing.T, text string) {
		m, err := Parse(text)
		if err != nil {
			var list ErrorList
			if !errors.As(err, &list) || len(list) == 0 || err.Error() == "" {
				t.Fatal("an error that says nothing")
			}
			return
		}
		for _, fn := range m.Funcs {
			checkFunc(t, fn)
		}
		if dump := completed(t, text).Dump(); dump != m.Dump() {
			t.Fatalf("by its outline: %s", golden.Difference(dump, m.Dump()))
		}
	})
}

// checkFunc checks the properties that executors rely on.
func checkFunc(t *testing.T, f *Func) {
	for i := range f.Insts {
		inst := &f.Insts[i]
		if inst.Op == OpBra && (inst.Target < 0 || int(inst.Target) >= len(f.Insts)) {
			t.Fatalf("%s: branch to %d of %d", inst, inst.Target, len(f.Insts))
		}
		for _, target := range inst.Targets {
			if target < 0 || int(target) >= len(f.Insts) {
				t.Fatalf("%s: branch to %d of %d", inst, target, len(f.Insts))
			}
		}
		if inst.Guard.Reg >= int32(f.Registers[Pred]) {
			t.Fatalf("%s: no such predicate", inst)
		}
		for _, list := range [][]Operand{inst.Dst, inst.Src} {
			for _, o := range list {
				if o.Kind == RegOperand && o.Reg.Index >= int32(f.Registers[o.Reg.Class]) {
					t.Fatalf("%s: no register %s", inst, o.Reg)
				}
			}
		}
		if inst.addressed() && inst.Addr.Reg.Index >= int32(f.Registers[inst.Addr.Reg.Class]) {
			t.Fatalf("%s: no register %s", inst, inst.Addr.Reg)
		}
	}
	if n := len(f.Insts); n > 0 && !f.Insts[n-1].endsFlow() {
		t.Fatalf("%s runs off its end", f.Name)
	}
	for _, v := range append(f.Params, f.Returns...) {
		if v.Space == ParamSpace && v.Offset+v.Bytes > f.ParamBytes {
			t.Fatalf("parameter %s lies outside of %d bytes", v.Name, f.ParamBytes)
		}
	}
}
