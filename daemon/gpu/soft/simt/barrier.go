package simt

import (
	"math/bits"

	"github.com/phos-gpu/phos/daemon/gpu/soft/simt/code"
	"github.com/phos-gpu/phos/hijack/abi"
	"github.com/phos-gpu/phos/internal/ptx"
)

// barrier is one of a block's sixteen barriers. No thread waits at the zero value.
type barrier struct {
	// threads is how many threads have arrived. expected is how many must arrive; 0 means all that
	// have not exited.
	threads, expected uint32
	waiting           bool
	// The reduction over the predicates of the threads that have arrived.
	count    uint32
	all, any bool
}

// barrier executes bar and barrier. w.pc is past the instruction.
func (w *warp) barrier(in *code.Inst, mask uint32) {
	x := in.X
	id := w.v32(x.Src[0].At)[lowestLane(mask)&31]
	if id >= uint32(len(w.block.barriers)) {
		panic(w.fault(lowestLane(mask), abi.IllegalInstruction, 0))
	}
	b := &w.block.barriers[id]
	if b.threads == 0 {
		*b = barrier{all: true}
	}
	if len(x.Src) > 1 && !x.Src[1].Sink {
		b.expected = w.v32(x.Src[1].At)[lowestLane(mask)&31]
	}
	arrived := uint32(bits.OnesCount32(mask))
	if b.expected != 0 && mask == w.alive {
		arrived = warpLanes // the ISA counts whole warps
	}
	b.threads += arrived
	if x.Mode == ptx.BarRedPopc || x.Mode == ptx.BarRedAnd || x.Mode == ptx.BarRedOr {
		p := w.predicate(x.Src[2]) & mask
		b.count += uint32(bits.OnesCount32(p))
		b.all = b.all && p == mask
		b.any = b.any || p != 0
	}
	if x.Mode != ptx.BarArrive {
		w.waitAtBarrier(int32(id), in, mask)
	}
	w.block.releaseIfComplete(int32(id))
}

// waitAtBarrier parks the lanes of mask at a barrier. Other lanes of the running group, whose guard
// was false, go on.
func (w *warp) waitAtBarrier(id int32, in *code.Inst, mask uint32) {
	w.groups = append(w.groups, group{pc: w.pc, mask: mask, why: atBarrier, barrier: id, in: in})
	w.mask &^= mask
	w.block.barriers[id].waiting = true
}

// releaseIfComplete makes the waiting groups runnable if all threads have arrived.
func (b *block) releaseIfComplete(id int32) {
	bar := &b.barriers[id]
	if bar.threads == 0 || bar.threads < bar.expected {
		return
	}
	if bar.expected == 0 && bar.threads < b.liveThreads() {
		return
	}
	finished := *bar
	*bar = barrier{}
	if !finished.waiting {
		return
	}
	for i := range b.warps {
		w := &b.warps[i]
		for n := range w.groups {
			if g := &w.groups[n]; g.why == atBarrier && g.barrier == id {
				w.writeReduction(g, &finished)
				g.why = runnable
			}
		}
		if w.mask != 0 {
			w.updateJoin()
		}
	}
}

// writeReduction writes the result of a reducing barrier.
func (w *warp) writeReduction(g *group, b *barrier) {
	x := g.in.X
	if len(x.Dst) == 0 || x.Dst[0].Sink {
		return
	}
	switch x.Mode {
	case ptx.BarRedPopc:
		w.writeMask(x.Dst[0], g.mask, b.count)
	case ptx.BarRedAnd:
		w.setPredicate(x.Dst[0].At, g.mask, allOnes(b.all))
	case ptx.BarRedOr:
		w.setPredicate(x.Dst[0].At, g.mask, allOnes(b.any))
	}
}

// liveThreads counts the threads that have not exited.
func (b *block) liveThreads() (n uint32) {
	for i := range b.warps {
		n += uint32(bits.OnesCount32(b.warps[i].alive))
	}
	return n
}
