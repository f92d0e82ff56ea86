package ptx

import "testing"

// TestArrayElementAddress checks that an index into an array counts elements, as in NVIDIA's
// assembler: a[3] of .b32 is at offset 12.
func TestArrayElementAddress(t *testing.T) {
	module, err := Parse(`.version 7.0
.target sm_70
.address_size 64
.visible .entry k()
{
	.shared .align 16 .b32 a[64];
	.shared .align 16 .v2 .b16 b[64];
	.reg .b64 %d<4>;
	mov.u64 %d1, a[3];
	mov.u64 %d2, b[3]+2;
	mov.u64 %d3, a[0];
	ret;
}`)
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []int64{12, 14, 0} {
		if got := module.Funcs[0].Insts[i].Src[0].Offset; got != want {
			t.Errorf("instruction %d: offset %d, want %d", i, got, want)
		}
	}
}
