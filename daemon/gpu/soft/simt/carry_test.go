package simt_test

import "testing"

// TestCarryOfSubtraction reads the carry flag of subtractions with an addition, as nvcc's 128-bit
// division does.
func TestCarryOfSubtraction(t *testing.T) {
	for name, text := range map[string]string{
		"sub":  "sub.cc.u32 %r3, %r1, 10;",
		"subc": "mov.u32 %r4, 0;\nsub.cc.u32 %r3, %r1, 10;\nsubc.cc.u32 %r3, %r4, %r4;",
		"wide": "cvt.u64.u32 %rd3, %r1;\nsub.cc.u64 %rd3, %rd3, 10;",
	} {
		t.Run(name, func(t *testing.T) {
			wantEach(t, body("mov.u32 %r5, 0;\n"+text+"\naddc.u32 %r6, %r5, %r5;\nst.global.u32 [%rd2], %r6;\nret;"), 32,
				func(lane uint32) uint32 {
					if lane < 10 {
						return 0
					}
					return 1
				})
		})
	}
}
