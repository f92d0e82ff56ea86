package simt_test

import "testing"

// TestMembersDiffer runs warp instructions in which each quarter of the warp names itself as the
// members.
func TestMembersDiffer(t *testing.T) {
	const quarters = `
	and.b32 %r2, %r1, 24;
	mov.u32 %r3, 255;
	shl.b32 %r3, %r3, %r2;
	and.b32 %r4, %r1, 7;
	shr.u32 %r5, %r1, 3;
	setp.le.u32 %p1, %r4, %r5;
`
	below := func(n uint32) uint32 { return 1<<n - 1 }
	for name, test := range map[string]struct {
		text string
		want func(lane, quarter uint32) uint32
	}{
		"ballot": {"vote.sync.ballot.b32 %r6, %p1, %r3;", func(_, q uint32) uint32 { return below(q+1) << (8 * q) }},
		"all": {
			"setp.ne.u32 %p2, %r5, 2;\nvote.sync.all.pred %p3, %p2, %r3;\nselp.u32 %r6, 1, 0, %p3;",
			func(_, q uint32) uint32 {
				if q == 2 {
					return 0
				}
				return 1
			},
		},
		"match": {"shr.u32 %r7, %r4, 2;\nmatch.any.sync.b32 %r6, %r7, %r3;", func(lane, q uint32) uint32 {
			return 15 << (8*q + lane%8/4*4)
		}},
		"redux":   {"redux.sync.add.u32 %r6, %r1, %r3;", func(_, q uint32) uint32 { return 64*q + 28 }},
		"shuffle": {"shfl.sync.bfly.b32 %r6, %r1, 3, 0x181f, %r3;", func(lane, _ uint32) uint32 { return lane ^ 3 }},
		"barrier": {"bar.warp.sync %r3;\nmov.u32 %r6, %r1;", func(lane, _ uint32) uint32 { return lane }},
	} {
		t.Run(name, func(t *testing.T) {
			wantEach(t, body(quarters+test.text+"\nst.global.u32 [%rd2], %r6;\nret;"), 32, func(lane uint32) uint32 {
				return test.want(lane, lane/8)
			})
		})
	}
}
