package simt_test

import (
	"context"
	"math"
	"math/bits"
	"testing"

	"github.com/phos-gpu/phos/daemon/gpu/soft/simt"
)

func TestShuffles(t *testing.T) {
	for _, test := range []struct {
		name, text string
		want       func(lane uint32) (value uint32, ok bool)
	}{
		{"up", "shfl.sync.up.b32 %r3|%p1, %r2, 3, 0, -1;", func(l uint32) (uint32, bool) {
			if l < 3 {
				return l, false
			}
			return l - 3, true
		}},
		{"down in eights", "shfl.sync.down.b32 %r3|%p1, %r2, 2, 0x1807, -1;", func(l uint32) (uint32, bool) {
			if l%8+2 > 7 {
				return l, false
			}
			return l + 2, true
		}},
		{"butterfly", "shfl.sync.bfly.b32 %r3|%p1, %r2, 16, 31, -1;", func(l uint32) (uint32, bool) { return l ^ 16, true }},
		{"index in fours", "shfl.sync.idx.b32 %r3|%p1, %r2, 1, 0x1c03, -1;", func(l uint32) (uint32, bool) {
			return l&^3 + 1, true
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			wantEach(t, body("mul.lo.u32 %r2, %r1, 7;\n"+test.text+`
	selp.u32 %r4, 1000000, 0, %p1;
	add.u32 %r3, %r3, %r4;
	st.global.u32 [%rd2], %r3;
	ret;`), 32, func(lane uint32) uint32 {
				source, ok := test.want(lane)
				if ok {
					return source*7 + 1000000
				}
				return source * 7
			})
		})
	}
}

func TestShuffleAfterDivergence(t *testing.T) {
	// Even and odd lanes reach the shuffle from different branches, one by a jump backwards. The
	// shuffle must wait for both.
	wantEach(t, body(`
	and.b32 %r2, %r1, 1;
	setp.eq.u32 %p1, %r2, 0;
	@%p1 bra EVEN;
	mul.lo.u32 %r3, %r1, 3;
	bra MEET;
MEET:	shfl.sync.bfly.b32 %r4, %r3, 1, 31, -1;
	st.global.u32 [%rd2], %r4;
	ret;
EVEN:	mul.lo.u32 %r3, %r1, 5;
	bra MEET;`), 32, func(lane uint32) uint32 {
		other := lane ^ 1
		if other%2 == 0 {
			return other * 5
		}
		return other * 3
	})
}

func TestVotes(t *testing.T) {
	wantEach(t, body(`
	setp.lt.u32 %p1, %r1, 5;
	vote.sync.ballot.b32 %r2, %p1, -1;
	vote.sync.any.pred %p2, %p1, -1;
	vote.sync.all.pred %p3, %p1, -1;
	vote.sync.uni.pred %p4, !%p1, -1;
	activemask.b32 %r3;
	popc.b32 %r3, %r3;
	selp.u32 %r4, 0x100, 0, %p2;
	selp.u32 %r5, 0x200, 0, %p3;
	selp.u32 %r6, 0x400, 0, %p4;
	or.b32 %r2, %r2, %r4;
	or.b32 %r2, %r2, %r5;
	or.b32 %r2, %r2, %r6;
	shl.b32 %r3, %r3, 16;
	or.b32 %r2, %r2, %r3;
	st.global.u32 [%rd2], %r2;
	ret;`), 20, func(uint32) uint32 { return 0x1f | 0x100 | 20<<16 })
}

func TestMatchAndRedux(t *testing.T) {
	wantEach(t, body(`
	rem.u32 %r2, %r1, 3;
	match.any.sync.b32 %r3, %r2, -1;
	match.all.sync.b32 %r4|%p1, %r2, -1;
	redux.sync.add.u32 %r5, %r1, -1;
	redux.sync.max.s32 %r6, %r2, -1;
	redux.sync.xor.b32 %r7, %r1, -1;
	selp.u32 %r8, 100000, 0, %p1;
	popc.b32 %r3, %r3;
	mad.lo.u32 %r3, %r3, 1000, %r5;
	mad.lo.u32 %r3, %r6, 100000, %r3;
	add.u32 %r3, %r3, %r4;
	add.u32 %r3, %r3, %r7;
	add.u32 %r3, %r3, %r8;
	st.global.u32 [%rd2], %r3;
	ret;`), 32, func(lane uint32) uint32 {
		same := uint32(11)
		if lane%3 == 2 {
			same = 10
		}
		return same*1000 + 496 + 200000
	})
}

func TestAtomics(t *testing.T) {
	// Eight blocks of 64 threads update the same cells. No result depends on the order.
	m := newMachine(t)
	k := m.kernel(m.link(body(`
	mov.u32 %r2, %ctaid.x;
	mad.lo.u32 %r2, %r2, 64, %r1;
	red.global.add.u32 [%rd1], %r2;
	red.global.max.s32 [%rd1+4], %r2;
	red.global.min.u32 [%rd1+8], %r2;
	and.b32 %r3, %r2, 31;
	mov.u32 %r4, 1;
	shl.b32 %r4, %r4, %r3;
	red.global.or.b32 [%rd1+12], %r4;
	atom.global.inc.u32 %r5, [%rd1+16], 99;
	mov.f32 %f1, 0f3F000000;
	red.global.add.f32 [%rd1+20], %f1;
	cvt.u64.u32 %rd3, %r2;
	red.global.add.u64 [%rd1+24], %rd3;
	mov.f64 %fd1, 0d3FD0000000000000;
	red.global.add.f64 [%rd1+32], %fd1;
	mov.b32 %r6, 0x3C003C00;
	red.global.add.noftz.f16x2 [%rd1+40], %r6;
	mov.b16 %h1, 0x3C00;
	red.global.add.noftz.f16 [%rd1+46], %h1;
	red.global.xor.b32 [%rd1+48], %r2;
	atom.global.dec.u32 %r7, [%rd1+52], 9;
L:	ld.volatile.global.u32 %r8, [%rd1+56];
	add.u32 %r9, %r8, 3;
	atom.global.cas.b32 %r10, [%rd1+56], %r8, %r9;
	setp.ne.u32 %p1, %r10, %r8;
	@%p1 bra L;
	ret;`)), "k")
	out := m.alloc(64)
	m.write32(out+8, math.MaxUint32)
	err := simt.NewEngine(simt.Options{Cores: 2}).Run(context.Background(), k, simt.Launch{
		Grid:  [3]uint32{8, 1, 1},
		Block: [3]uint32{64, 1, 1}, Params: params(out),
	}, m.memory, nil)
	if err != nil {
		t.Fatal(err)
	}
	const n = 512
	sum := uint32(n * (n - 1) / 2)
	want := []uint32{
		sum, n - 1, 0, math.MaxUint32, n % 100, math.Float32bits(n / 2), sum, 0,
		uint32(
			math.Float64bits(n / 4),
		), uint32(math.Float64bits(n/4) >> 32), 0x60006000, 0x60000000, 0, dec(n, 9), 3 * n,
	}
	for i, got := range m.read32(out, len(want)) {
		if got != want[i] {
			t.Errorf("cell %d: got %#x, want %#x", i, got, want[i])
		}
	}
}

func dec(times int, limit uint32) (v uint32) {
	for range times {
		if v == 0 || v > limit {
			v = limit
		} else {
			v--
		}
	}
	return v
}

func TestBitInstructions(t *testing.T) {
	// Brute force over the positions and lengths that the ISA defines.
	wantEach(t, body(`
	mul.lo.u32 %r2, %r1, 0x9E3779B1;
	shr.u32 %r3, %r1, 3;
	and.b32 %r4, %r1, 7;
	mul.lo.u32 %r4, %r4, 6;
	bfe.u32 %r5, %r2, %r3, %r4;
	bfe.s32 %r6, %r2, %r3, %r4;
	bfi.b32 %r7, %r1, %r2, %r3, %r4;
	brev.b32 %r8, %r2;
	bfind.u32 %r9, %r2;
	bfind.shiftamt.s32 %r10, %r2;
	lop3.b32 %r11, %r2, %r1, %r8, 0x96;
	prmt.b32 %r12, %r2, %r8, 0xF042;
	shf.l.wrap.b32 %r13, %r2, %r8, %r1;
	shf.r.clamp.b32 %r14, %r2, %r8, %r1;
	xor.b32 %r5, %r5, %r6;
	xor.b32 %r5, %r5, %r7;
	xor.b32 %r5, %r5, %r9;
	xor.b32 %r5, %r5, %r10;
	xor.b32 %r5, %r5, %r11;
	xor.b32 %r5, %r5, %r12;
	xor.b32 %r5, %r5, %r13;
	xor.b32 %r5, %r5, %r14;
	st.global.u32 [%rd2], %r5;
	ret;`), 250, func(tid uint32) uint32 {
		v, at, n := tid*0x9E3779B1, tid>>3, tid&7*6
		result := field(v, at, n, false) ^ field(v, at, n, true)
		for i := range uint32(32) { // bfi
			bit := v >> i & 1
			if i >= at && i < at+n {
				bit = tid >> (i - at) & 1
			}
			result ^= bit << i
		}
		reversed := bits.Reverse32(v)
		result ^= uint32(bits.Len32(v) - 1)
		sign := v
		if int32(v) < 0 {
			sign = ^v
		}
		if sign == 0 {
			result ^= math.MaxUint32
		} else {
			result ^= uint32(31 - (bits.Len32(sign) - 1))
		}
		result ^= v ^ tid ^ reversed
		replicated := uint32(0)
		if reversed>>31 == 1 {
			replicated = 0xff000000
		}
		result ^= v>>16&0xff | reversed&0xff<<8 | v&0xff<<16 | replicated
		both := uint64(reversed)<<32 | uint64(v)
		return result ^ uint32(both<<(tid&31)>>32) ^ uint32(both>>min(tid, 32))
	})
}

// field computes bfe bit by bit.
func field(v, at, n uint32, signed bool) (result uint32) {
	fill := uint32(0)
	if signed && n > 0 {
		fill = v >> min(at+n-1, 31) & 1
	}
	for i := range uint32(32) {
		bit := fill
		if i < n && at+i < 32 {
			bit = v >> (at + i) & 1
		}
		result |= bit << i
	}
	return result
}
