package simt

import (
	"math/bits"
	"time"

	"github.com/phos-gpu/phos/daemon/gpu/soft/simt/code"
	"github.com/phos-gpu/phos/internal/ptx"
)

// fill fills the columns of constants and special registers in the lanes of mask.
func (w *warp) fill(b *code.Block, mask uint32) {
	for _, c := range b.Constants32 {
		column := w.v32(c.At)
		for m := mask; m != 0; m &= m - 1 {
			column[bits.TrailingZeros32(m)&31] = uint32(c.Value)
		}
	}
	for _, c := range b.Constants64 {
		column := w.v64(c.At)
		for m := mask; m != 0; m &= m - 1 {
			column[bits.TrailingZeros32(m)&31] = c.Value
		}
	}
	for _, c := range b.ConstantPredicates {
		w.setPredicate(c.At, mask, uint32(c.Value))
	}
	for _, s := range b.Specials {
		w.fillSpecial(s, mask)
	}
}

// setSpecials fills the columns of the kernel that depend on the block.
func (w *warp) setSpecials() {
	for _, s := range w.block.kernel.Specials {
		if perBlock(s.Special) {
			w.fillSpecial(s, fullMask)
		}
	}
	*w.v32(w.block.kernel.Frame) = [warpLanes]uint32{}
}

// perBlock reports whether a special register depends on the block.
func perBlock(s ptx.Special) bool {
	return s >= ptx.CtaidX && s <= ptx.CtaidZ || s >= ptx.ClusteridX && s <= ptx.ClusteridZ || s == ptx.SMID
}

// fillSpecial fills one column with a special register, in the lanes of mask.
func (w *warp) fillSpecial(s code.SpecialColumn, mask uint32) {
	for m := mask; m != 0; m &= m - 1 {
		lane := bits.TrailingZeros32(m) & 31
		v := w.special(s.Special, lane)
		if s.Wide {
			w.v64(s.At)[lane] = v
		} else {
			w.v32(s.At)[lane] = uint32(v)
		}
	}
}

// special returns a special register that does not change while a warp runs.
func (w *warp) special(s ptx.Special, lane int) uint64 {
	b := w.block
	switch {
	case s >= ptx.TidX && s <= ptx.TidZ:
		return uint64(w.threadIndex(lane)[s-ptx.TidX])
	case s >= ptx.NtidX && s <= ptx.NtidZ:
		return uint64(b.launch.Block[s-ptx.NtidX])
	case s >= ptx.CtaidX && s <= ptx.CtaidZ:
		return uint64(b.index[s-ptx.CtaidX])
	case s >= ptx.NctaidX && s <= ptx.NctaidZ:
		return uint64(b.launch.Grid[s-ptx.NctaidX])
	case s >= ptx.ClusteridX && s <= ptx.ClusteridZ: // every block is its own cluster
		return uint64(b.index[s-ptx.ClusteridX])
	case s >= ptx.NclusteridX && s <= ptx.NclusteridZ:
		return uint64(b.launch.Grid[s-ptx.NclusteridX])
	case s >= ptx.ClusterNctaidX && s <= ptx.ClusterNctaidZ, s == ptx.ClusterNctarank:
		return 1
	}
	switch s {
	case ptx.LaneID:
		return uint64(lane)
	case ptx.WarpID:
		return uint64(w.index)
	case ptx.NwarpID:
		return uint64(len(b.warps))
	case ptx.SMID:
		return uint64(b.runner.number % b.runner.run.processors)
	case ptx.NSMID:
		return uint64(b.runner.run.processors)
	case ptx.GridID:
		return b.launch.GridID
	case ptx.Envreg1:
		return b.runner.run.workspace >> 32
	case ptx.Envreg2:
		return b.runner.run.workspace & 0xffffffff
	case ptx.LanemaskEQ:
		return 1 << lane
	case ptx.LanemaskLE:
		return 2<<lane - 1
	case ptx.LanemaskLT:
		return 1<<lane - 1
	case ptx.LanemaskGE:
		return uint64(^uint32(0) << lane)
	case ptx.LanemaskGT:
		return uint64(^uint32(1) << lane)
	case ptx.DynamicSmemSize:
		return uint64(b.launch.SharedBytes)
	case ptx.TotalSmemSize:
		return b.kernel.StaticShared + uint64(b.launch.SharedBytes)
	}
	return 0
}

// clock reads the special registers that change. In deterministic mode the time is the number of
// turns.
func (w *warp) clock(in *code.Inst, mask uint32) {
	now := uint64(time.Now().UnixNano())
	r := w.block.runner
	if r.run.deterministic {
		r.ticks++
		now = r.ticks * 1000
	}
	switch in.X.Special {
	case ptx.ClockHi, ptx.GlobaltimerHi:
		now >>= 32
	case ptx.Clock, ptx.GlobaltimerLo:
		now &= 0xffffffff
	}
	d := w.v64(in.D)
	for m := mask; m != 0; m &= m - 1 {
		d[bits.TrailingZeros32(m)&31] = now
	}
}
