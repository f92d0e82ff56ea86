package simt

import (
	"math/bits"

	"github.com/phos-gpu/phos/daemon/gpu/soft/simt/code"
	"github.com/phos-gpu/phos/hijack/abi"
	"github.com/phos-gpu/phos/internal/ptx"
)

// Extra costs of instructions, charged to the warp's turn. An instruction that may wait for other
// warps ends its turn soon.
const (
	syncCost   = 64
	matrixCost = 64
	yieldCost  = 1 << 20
)

// run executes the warp until its turn is used up, or until all lanes wait or have exited. It
// returns the rest of the turn.
func (w *warp) run(turn int) int {
	if w.mask == 0 && !w.resumeNext() {
		return turn
	}
	insts, own := w.block.kernel.Text().Insts, w.block.kernel.Own
	pc := w.pc
	for turn > 0 {
		turn--
		in := &insts[pc]
		pc++
		mask, shape := w.mask, in.Shape
		if in.Guard >= 0 {
			p := w.predicates[in.Guard]
			if in.GuardNegated {
				p = ^p
			}
			if mask &= p; mask == 0 {
				shape = code.Nop
			}
		}
		switch shape {
		case code.Nop:
		case code.Loop32:
			if mask == w.alive { // results of lanes that are not alive are never read
				in.F32(w.v32(in.D), w.v32(in.A), w.v32(in.B), w.v32(in.C))
			} else {
				in.F32(&w.scratch32, w.v32(in.A), w.v32(in.B), w.v32(in.C))
				blend32(w.v32(in.D), &w.scratch32, mask)
			}
		case code.Loop64:
			if mask == w.alive {
				in.F64(w.v64(in.D), w.v64(in.A), w.v64(in.B), w.v64(in.C))
			} else {
				in.F64(&w.scratch64, w.v64(in.A), w.v64(in.B), w.v64(in.C))
				blend64(w.v64(in.D), &w.scratch64, mask)
			}
		case code.LoopWiden:
			if mask == w.alive {
				in.X.Widen(w.v64(in.D), w.v32(in.A), w.v32(in.B), w.v64(in.C))
			} else {
				in.X.Widen(&w.scratch64, w.v32(in.A), w.v32(in.B), w.v64(in.C))
				blend64(w.v64(in.D), &w.scratch64, mask)
			}
		case code.LoopCompare32:
			w.setCompared(in, mask, in.X.Compare32(w.v32(in.A), w.v32(in.B)))
		case code.LoopCompare64:
			w.setCompared(in, mask, in.X.Compare64(w.v64(in.A), w.v64(in.B)))
		case code.Load, code.Store:
			w.pc = pc
			turn -= w.access(in, mask)
		case code.Branch:
			switch {
			case mask == w.mask && len(w.groups) == 0:
				pc = in.Target
			case mask == w.mask:
				w.pc = in.Target
				w.reconverge()
				pc = w.pc
			default:
				w.pc = pc
				w.diverge(mask, in.Target)
				pc = w.pc
			}
		default:
			w.pc = pc
			turn -= w.runRare(in, mask)
			if w.mask == 0 && !w.resumeNext() {
				return turn
			}
			pc, insts = w.pc, w.block.kernel.Text().Insts // a callee may be new
		}
		if uint32(pc)-own >= w.join {
			w.pc = pc
			w.reconverge()
			pc = w.pc
		}
	}
	w.pc = pc
	return turn
}

// runRare executes the shapes that are too rare for the inner loop and returns their extra cost.
// w.pc is past the instruction. Shapes that jump change it; shapes that block or end the running
// group clear w.mask.
func (w *warp) runRare(in *code.Inst, mask uint32) int {
	switch in.Shape {
	case code.LoopNarrow, code.LoopShift64, code.Select32, code.Select64:
		w.otherLoops(in, mask)
	case code.Scalar:
		w.scalar(in, mask)
	case code.ScalarCompare:
		w.setCompared(in, mask, w.scalarMask(in, mask))
	case code.ScalarCarry:
		w.scalarCarry(in, mask)
	case code.PredicateLogic:
		w.predicateLogic(in, mask)
	case code.Pack:
		w.pack(in, mask)
	case code.Unpack:
		w.unpack(in, mask)
	case code.Clock:
		w.clock(in, mask)
	case code.Param:
		w.loadParam(in, mask)
	case code.Atomic:
		w.atomic(in, mask)
		return syncCost
	case code.BranchIndexed:
		w.branchIndexed(in, mask)
	case code.Call:
		w.call(in, mask)
	case code.CallBuiltin:
		w.builtin(in, mask)
	case code.Return:
		w.ret(mask)
	case code.Exit:
		w.exit(mask)
	case code.Trap, code.Breakpoint:
		panic(w.fault(lowestLane(mask), abi.IllegalInstruction, 0))
	case code.LoadPart:
		w.loadPart(in, mask)
	case code.MatrixMultiply, code.MatrixLoad, code.MatrixStore, code.MatrixMove:
		w.matrix(in, mask)
		return matrixCost
	case code.Barrier:
		w.barrier(in, mask)
	case code.WarpBarrier:
		w.awaitGuardedMembers(w.v32(in.X.Src[0].At), mask)
	case code.Yield:
		return yieldCost
	case code.Refuse:
		panic(w.refusal(lowestLane(mask), in.X.Reason))
	default:
		w.exchange(in, mask)
	}
	return 0
}

func lowestLane(mask uint32) int { return bits.TrailingZeros32(mask) }

// setCompared stores the result of a comparison in one or two predicates.
func (w *warp) setCompared(in *code.Inst, mask, answer uint32) {
	if in.Invert {
		answer = ^answer
	}
	p, q := answer, ^answer
	if in.Bool != ptx.BoolNone {
		c := w.predicates[in.C]
		if in.NegateC {
			c = ^c
		}
		p, q = combine(in.Bool, p, c), combine(in.Bool, q, c)
	}
	w.setPredicate(in.D, mask, p)
	if in.Q >= 0 {
		w.setPredicate(uint32(in.Q), mask, q)
	}
}

// combine joins a comparison's result with a predicate, as masks of lanes.
func combine(op ptx.BoolOp, a, b uint32) uint32 {
	switch op {
	case ptx.BoolAnd:
		return a & b
	case ptx.BoolOr:
		return a | b
	case ptx.BoolXor:
		return a ^ b
	}
	return a
}

// predicateLogic executes logic operations on predicates, as masks of lanes.
func (w *warp) predicateLogic(in *code.Inst, mask uint32) {
	p := w.predicate(in.X.Src[0])
	if in.Bool != ptx.BoolNone {
		p = combine(in.Bool, p, w.predicate(in.X.Src[1]))
	}
	if in.Invert {
		p = ^p
	}
	w.setPredicate(in.D, mask, p)
}

// otherLoops executes shapes whose loops have other signatures than those in run.
func (w *warp) otherLoops(in *code.Inst, mask uint32) {
	switch in.Shape {
	case code.LoopNarrow:
		in.X.Narrow(&w.scratch32, w.v64(in.A))
		blend32(w.v32(in.D), &w.scratch32, mask)
	case code.LoopShift64:
		in.X.Shift64(&w.scratch64, w.v64(in.A), w.v32(in.B))
		blend64(w.v64(in.D), &w.scratch64, mask)
	case code.Select32:
		c := w.selector(in)
		blend32(&w.scratch32, w.v32(in.A), c)
		blend32(&w.scratch32, w.v32(in.B), ^c)
		blend32(w.v32(in.D), &w.scratch32, mask)
	case code.Select64:
		c := w.selector(in)
		blend64(&w.scratch64, w.v64(in.A), c)
		blend64(&w.scratch64, w.v64(in.B), ^c)
		blend64(w.v64(in.D), &w.scratch64, mask)
	}
}

// selector returns the predicate of selp as a mask.
func (w *warp) selector(in *code.Inst) uint32 {
	if in.NegateC {
		return ^w.predicates[in.C]
	}
	return w.predicates[in.C]
}

// scalar applies a function of package arith lane by lane.
func (w *warp) scalar(in *code.Inst, mask uint32) {
	x := in.X
	var src [4][warpLanes]uint64
	for i, ref := range x.Src {
		w.readAll(ref, &src[i])
	}
	for m := mask; m != 0; m &= m - 1 {
		i := bits.TrailingZeros32(m) & 31
		src[0][i] = x.Scalar(src[0][i], src[1][i], src[2][i], src[3][i])
	}
	w.writeAll(x.Dst[0], mask, &src[0])
}

// scalarMask is scalar for functions that return a predicate.
func (w *warp) scalarMask(in *code.Inst, mask uint32) (answer uint32) {
	x := in.X
	var src [2][warpLanes]uint64
	for i, ref := range x.Src {
		w.readAll(ref, &src[i])
	}
	for m := mask; m != 0; m &= m - 1 {
		i := bits.TrailingZeros32(m) & 31
		answer |= uint32(x.Scalar(src[0][i], src[1][i], 0, 0)) << i
	}
	return answer
}

// scalarCarry is scalar for functions with a carry flag.
func (w *warp) scalarCarry(in *code.Inst, mask uint32) {
	x := in.X
	var src [3][warpLanes]uint64
	for i, ref := range x.Src {
		w.readAll(ref, &src[i])
	}
	for m := mask; m != 0; m &= m - 1 {
		i := bits.TrailingZeros32(m) & 31
		result, carry := x.Carry(src[0][i], src[1][i], src[2][i], uint64(w.carry>>i&1))
		src[0][i] = result
		if x.CarryOut {
			w.carry = w.carry&^(1<<i) | uint32(carry)<<i
		}
	}
	w.writeAll(x.Dst[0], mask, &src[0])
}

// pack executes mov from a vector of registers to a wider one.
func (w *warp) pack(in *code.Inst, mask uint32) {
	var sum, part [warpLanes]uint64
	width := 8 * uint(in.X.Element)
	for i, ref := range in.X.Src {
		w.readAll(ref, &part)
		for lane := range sum {
			sum[lane] |= part[lane] << (64 - width) >> (64 - width) << (uint(i) * width)
		}
	}
	w.writeAll(in.X.Dst[0], mask, &sum)
}

// unpack executes mov from a register to a vector of narrower ones.
func (w *warp) unpack(in *code.Inst, mask uint32) {
	var whole, part [warpLanes]uint64
	width := 8 * uint(in.X.Element)
	w.readAll(in.X.Src[0], &whole)
	for i, ref := range in.X.Dst {
		for lane := range part {
			part[lane] = whole[lane] >> (uint(i) * width) << (64 - width) >> (64 - width)
		}
		w.writeAll(ref, mask, &part)
	}
}

// branchIndexed executes brx.idx: each lane jumps to its own target. An index outside the list is
// undefined in the ISA; here the lane falls through.
func (w *warp) branchIndexed(in *code.Inst, mask uint32) {
	index := w.v32(in.A)
	for mask != 0 {
		chosen := index[lowestLane(mask)&31]
		same := uint32(0)
		for m := mask; m != 0; m &= m - 1 {
			if i := bits.TrailingZeros32(m) & 31; index[i] == chosen {
				same |= 1 << i
			}
		}
		mask &^= same
		if int(chosen) >= len(in.X.Targets) {
			continue
		}
		w.groups = append(w.groups, group{pc: in.X.Targets[chosen], mask: same})
		w.mask &^= same
	}
	if w.mask != 0 {
		w.reconverge()
	}
}
