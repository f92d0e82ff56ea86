package simt_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/phos-gpu/phos/daemon/gpu/soft/simt"
	"github.com/phos-gpu/phos/daemon/gpu/soft/simt/space"
	"github.com/phos-gpu/phos/hijack/abi"
)

// TestNarrowAddressesWrap checks the PTX rule that an address in shared or local memory has 32
// bits: register plus immediate wraps, and a wider register is truncated. Each kernel fills 128
// words with their index plus 7 and then accesses word tid through an address that is only right
// modulo 2^32.
func TestNarrowAddressesWrap(t *testing.T) {
	const fill = `
	.%[1]s .align 16 .b8 area[512];
	mov.u32 %%r2, area;
	mov.u32 %%r3, 0;
F:	shl.b32 %%r4, %%r3, 2;
	add.u32 %%r4, %%r4, %%r2;
	add.u32 %%r5, %%r3, 7;
	st.%[1]s.u32 [%%r4], %%r5;
	add.u32 %%r3, %%r3, 1;
	setp.lt.u32 %%p1, %%r3, 128;
	@%%p1 bra F;
	bar.sync 0;
	shl.b32 %%r4, %%r1, 2;
	add.u32 %%r4, %%r4, %%r2;
	sub.u32 %%r6, %%r4, 512;     // below 0 if the area is at 0
	cvt.u64.u32 %%rd3, %%r6;
	cvt.s64.s32 %%rd4, %%r6;
	or.b64 %%rd5, %%rd3, 0x700000000;
`
	for _, c := range []struct{ name, space, access string }{
		{"shared load", "shared", "ld.shared.u32 %r7, [%r6+512];"},
		{"shared volatile load", "shared", "ld.volatile.shared.u32 %r7, [%r6+512];"},
		{"shared load of 64 bits", "shared", "and.b32 %r6, %r6, -8; ld.shared.u64 %rd6, [%r6+512];" +
			"and.b32 %r8, %r1, 1; shl.b32 %r8, %r8, 5; shr.u64 %rd6, %rd6, %r8; cvt.u32.u64 %r7, %rd6;"},
		{"shared vector load", "shared", "and.b32 %r6, %r6, -16; ld.shared.v4.u32 {%r10, %r11, %r12, %r13}, [%r6+512];" +
			"and.b32 %r8, %r1, 3; add.u32 %r7, %r10, %r8;"},
		{"shared store", "shared", "add.u32 %r7, %r1, 7; st.shared.u32 [%r4], 0; st.shared.u32 [%r6+512], %r7;" +
			"ld.shared.u32 %r7, [%r4];"},
		{"shared atomic", "shared", "atom.shared.add.u32 %r7, [%r6+512], 1;"},
		{"negative offset", "shared", "add.u32 %r6, %r4, 64; ld.shared.u32 %r7, [%r6+-64];"},
		{"truncated zero-extended register", "shared", "ld.shared.u32 %r7, [%rd3+512];"},
		{"sign-extended register", "shared", "ld.shared.u32 %r7, [%rd4+512];"},
		{"truncated register", "shared", "ld.shared.u32 %r7, [%rd5+512];"},
		{"local load", "local", "ld.local.u32 %r7, [%r6+512];"},
		{"local load of 64-bit register", "local", "ld.local.u32 %r7, [%rd3+512];"},
		{"local store", "local", "add.u32 %r7, %r1, 7; st.local.u32 [%r4], 0; st.local.u32 [%r6+512], %r7;" +
			"ld.local.u32 %r7, [%r4];"},
	} {
		t.Run(c.name, func(t *testing.T) {
			text := body(fmt.Sprintf(fill, c.space) + c.access + "\nst.global.u32 [%rd2], %r7;\nret;")
			wantEach(t, text, 96, func(tid uint32) uint32 { return tid + 7 })
		})
	}
}

// TestWrappedAddressOutOfBounds checks that a wrapped address behind shared memory is a fault
// there.
func TestWrappedAddressOutOfBounds(t *testing.T) {
	m := newMachine(t)
	_, _, err := m.run(body(`
	.shared .align 4 .b8 area[64];
	mov.u32 %r2, area;
	sub.u32 %r3, %r2, 64;
	ld.shared.u32 %r4, [%r3+128];
	st.global.u32 [%rd2], %r4;
	ret;`), 1, 1, 4)
	var fault *simt.Fault
	if !errors.As(err, &fault) || fault.Kind != abi.IllegalAddress || fault.Address != space.SharedBase+64 {
		t.Errorf("got %v, want ILLEGAL_ADDRESS at the end of shared memory", err)
	}
}

// TestGenericAddressesDoNotWrap checks that a 64-bit address is never truncated to a window.
func TestGenericAddressesDoNotWrap(t *testing.T) {
	m := newMachine(t)
	_, _, err := m.run(body(`
	.shared .align 4 .b8 area[64];
	cvta.shared.u64 %rd3, area;
	add.u64 %rd3, %rd3, 0xffffffff;
	ld.u8 %h1, [%rd3+1];
	ret;`), 1, 1, 4)
	var fault *simt.Fault
	if !errors.As(err, &fault) || fault.Kind != abi.IllegalAddress {
		t.Errorf("got %v, want ILLEGAL_ADDRESS", err)
	}
}
