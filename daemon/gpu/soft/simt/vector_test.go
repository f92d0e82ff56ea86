package simt_test

import (
	"fmt"
	"strings"
	"testing"
)

// TestVectorsAreWhole checks that vector loads are not torn by concurrent vector stores of another
// block. CUB's scan and select depend on it: they publish a value and its ready flag in one vector.
func TestVectorsAreWhole(t *testing.T) {
	for _, test := range []struct {
		register string
		bits     int
		count    int
	}{{"%h", 16, 2}, {"%h", 16, 4}, {"%r", 32, 2}, {"%r", 32, 4}, {"%rd", 64, 2}} {
		for _, order := range []string{"", ".relaxed.gpu"} {
			kind := fmt.Sprintf("%s.global.v%d.b%d", order, test.count, test.bits)
			t.Run(strings.TrimPrefix(kind, "."), func(t *testing.T) {
				m := newMachine(t)
				out, _, err := m.run(body(tearing(kind, test.register, test.bits, test.count)), 2, 32, 4096)
				if err != nil {
					t.Fatal(err)
				}
				if torn := m.read32(out, 1)[0]; torn != 0 {
					t.Errorf("%d of %d vectors are torn", torn, 32*turns)
				}
			})
		}
	}
}

const turns = 20_000

// tearing returns a kernel in which one block stores vectors of equal elements and another counts
// the vectors it loads with unequal ones.
func tearing(kind, register string, bits, count int) string {
	names := make([]string, count)
	for i := range names {
		names[i] = fmt.Sprint(register, 4+i)
	}
	vector := "{" + strings.Join(names, ", ") + "}"
	var write, compare strings.Builder
	for _, name := range names {
		fmt.Fprintf(&write, "cvt.u%d.u32 %s, %%r3;\n", bits, name)
	}
	for _, name := range names[1:] {
		fmt.Fprintf(&compare, "setp.ne.b%d %%p2, %s, %s;\n@%%p2 add.u32 %%r2, %%r2, 1;\n", bits, names[0], name)
	}
	return fmt.Sprintf(`
	mul.wide.u32 %%rd2, %%r1, 16;
	add.u64 %%rd2, %%rd2, %%rd1;
	mov.u32 %%r2, 0;
	mov.u32 %%r3, 0;
	mov.u32 %%r9, %%ctaid.x;
	setp.eq.u32 %%p1, %%r9, 0;
L:	@!%%p1 bra READ;
	%sst%s [%%rd2+64], %s;
	bra NEXT;
READ:	ld%s %s, [%%rd2+64];
	%s
NEXT:	add.u32 %%r3, %%r3, 1;
	setp.lt.u32 %%p3, %%r3, %d;
	@%%p3 bra L;
	red.global.add.u32 [%%rd1], %%r2;
	ret;`, write.String(), kind, vector, kind, vector, compare.String(), turns)
}
