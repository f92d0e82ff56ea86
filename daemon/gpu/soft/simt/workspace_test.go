package simt_test

import (
	"context"
	"sync"
	"testing"

	"github.com/phos-gpu/phos/daemon/gpu/soft/simt"
)

// gridBarrier counts 20 rounds in out[1]. In each round every block adds one, waits for all blocks
// and reads the sum; a block that reads a wrong sum sets out[0]. The barrier is that of nvcc's
// headers: the first block's addend flips the top bit of the word when the last block has arrived.
const gridBarrier = `
	.reg .b32 %e<3>;
	mov.u32 %e1, %envreg1;
	mov.u32 %e2, %envreg2;
	mov.b64 %rd3, {%e2, %e1};
	setp.eq.s64 %p1, %rd3, 0;
	@%p1 trap;
	mov.u32 %r2, %nctaid.x;
	mov.u32 %r3, %ctaid.x;
	mov.u32 %r4, 0;
	mov.u32 %r5, 1;
	setp.eq.u32 %p2, %r3, 0;
	sub.u32 %r6, -2147483647, %r2;
	selp.b32 %r5, %r6, 1, %p2;
L:	add.u32 %r4, %r4, 1;
	red.global.add.u32 [%rd1+4], 1;
	atom.add.release.gpu.u32 %r7, [%rd3+4], %r5;
W:	ld.acquire.gpu.u32 %r8, [%rd3+4];
	xor.b32 %r8, %r8, %r7;
	setp.ge.s32 %p3, %r8, 0;
	@%p3 bra W;
	ld.volatile.global.u32 %r9, [%rd1+4];
	mul.lo.u32 %r10, %r4, %r2;
	setp.lt.u32 %p4, %r9, %r10;
	@%p4 st.global.u32 [%rd1], %r4;
	setp.lt.u32 %p5, %r4, 20;
	@%p5 bra L;
	ret;`

// TestGridWorkspace runs cooperative launches of one program concurrently. Each must have its own
// barrier.
func TestGridWorkspace(t *testing.T) {
	m := newMachine(t)
	k := m.kernel(m.link(body(gridBarrier)), "k")
	engine := simt.NewEngine(simt.Options{Cores: 2})
	const blocks = 12
	var launches sync.WaitGroup
	outs := make([]uint64, 4)
	for i := range outs {
		outs[i] = m.alloc(256)
		launches.Go(func() {
			err := engine.Run(context.Background(), k, simt.Launch{
				Grid: [3]uint32{blocks, 1, 1}, Block: [3]uint32{1, 1, 1},
				Params: params(outs[i]), Cooperative: true,
			}, m.memory, nil)
			if err != nil {
				t.Error(err)
			}
		})
	}
	launches.Wait()
	for i, out := range outs {
		if got := m.read32(out, 2); got[0] != 0 || got[1] != 20*blocks {
			t.Errorf("launch %d: a block was ahead in round %d, %d additions", i, got[0], got[1])
		}
	}
	err := engine.Run(context.Background(), k, simt.Launch{
		Grid: [3]uint32{blocks, 1, 1}, Block: [3]uint32{1, 1, 1},
		Params: params(outs[0]),
	}, m.memory, nil)
	if err == nil {
		t.Error("a launch that is not cooperative has a workspace")
	}
}
