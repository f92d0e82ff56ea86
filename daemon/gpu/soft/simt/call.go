package simt

import (
	"encoding/binary"
	"math/bits"

	"github.com/phos-gpu/phos/daemon/gpu/soft/simt/code"
	"github.com/phos-gpu/phos/hijack/abi"
)

// maxCallDepth limits the recursion of functions without frames.
const maxCallDepth = 4096

// maxSaved limits what callees that call each other by address save: words of a lane.
const maxSaved = 1 << 17

// frame is a lane's return information for a call.
type frame struct {
	pc       int32
	frame    uint32 // the caller's frame offset in local memory
	site     *code.CallSite
	function *code.Function
	// saved holds registers of the outer call: those of a recursive callee, or those of all
	// functions of the caller if both are callees by address and share a place.
	saved []uint64
}

// call executes call for the lanes of mask. Lanes of an indirect call may have different targets.
func (w *warp) call(in *code.Inst, mask uint32) {
	site := in.X.Call
	if site.Indirect.Sink {
		w.enter(site, site.Function, mask)
		w.reconvergeIfDiverged()
		return
	}
	target := *w.v64(site.Indirect.At)
	for mask != 0 {
		lane := lowestLane(mask)
		same := uint32(0)
		for m := mask; m != 0; m &= m - 1 {
			if i := bits.TrailingZeros32(m) & 31; target[i] == target[lane&31] {
				same |= 1 << i
			}
		}
		mask &^= same
		callee := w.calleeAt(target[lane&31], lane)
		w.enter(site, callee.Function, same)
		w.fillCallee(callee, same)
	}
	w.reconvergeIfDiverged()
}

// calleeAt returns the function at an address, with room for its registers.
func (w *warp) calleeAt(address uint64, lane int) *code.Callee {
	k := w.block.kernel
	callee, err := k.Callees.At(address)
	if err != nil {
		panic(w.refusal(lane, err.Error()))
	}
	if callee == nil {
		panic(w.fault(lane, abi.InvalidPC, address))
	}
	w.block.grow(w.grow(&callee.Block))
	w.block.runner.growSites(k.Text().Sites)
	return callee
}

// fillCallee fills a callee's constants where the lanes have another's.
func (w *warp) fillCallee(callee *code.Callee, mask uint32) {
	other := uint32(0)
	for m := mask; m != 0; m &= m - 1 {
		if i := bits.TrailingZeros32(m) & 31; w.callees[i] != callee {
			w.callees[i] = callee
			other |= 1 << i
		}
	}
	if other != 0 {
		w.fill(&callee.Block, other)
	}
}

// reconvergeIfDiverged calls reconverge unless the warp is converged or has no running lanes.
func (w *warp) reconvergeIfDiverged() {
	if w.mask != 0 && len(w.groups) > 0 {
		w.reconverge()
	}
}

// jump continues the lanes of mask at pc. Other lanes of the running group stay.
func (w *warp) jump(mask uint32, pc int32) {
	if mask == w.mask {
		w.pc = pc
		return
	}
	w.groups = append(w.groups, group{pc: pc, mask: mask})
	w.mask &^= mask
}

// enter passes arguments and jumps to the function.
func (w *warp) enter(site *code.CallSite, function *code.Function, mask uint32) {
	back := w.pc
	for m := mask; m != 0; m &= m - 1 {
		w.enterLane(site, function, bits.TrailingZeros32(m), back)
	}
	w.jump(mask, function.Entry)
}

// enterLane pushes one lane's frame and copies its arguments.
func (w *warp) enterLane(site *code.CallSite, function *code.Function, lane int, back int32) {
	base := &w.v32(w.block.kernel.Frame)[lane&31]
	caller := *base
	callee := caller + site.FrameBytes
	if len(w.stacks[lane&31]) >= maxCallDepth || !w.growLocal(uint64(callee)+uint64(function.FrameBytes)) {
		panic(w.fault(lane, abi.HardwareStackError, 0))
	}
	top := frame{pc: back, frame: caller, site: site, function: function}
	// Read the arguments before saving the callee's registers and write them after: caller and callee
	// may be the same function.
	var few [16]uint64
	values := few[:]
	if len(site.Args) > len(few) {
		values = make([]uint64, len(site.Args))
	}
	for i, move := range site.Args {
		if !move.From.InFrame || !move.To.InFrame {
			values[i] = w.readPlace(move.From, caller, lane, move.Bytes)
		}
	}
	switch {
	case site.Within != nil && !site.Indirect.Sink:
		for _, each := range site.Within.Functions {
			top.saved = w.save(each, lane, top.saved)
		}
		if len(top.saved)*len(w.stacks[lane&31]) > maxSaved {
			panic(w.fault(lane, abi.HardwareStackError, 0))
		}
	case function.Recursive:
		top.saved = w.save(function, lane, []uint64{})
	}
	for i, move := range site.Args {
		if move.From.InFrame && move.To.InFrame {
			w.copyLocal(lane, uint64(callee+move.To.Offset), uint64(caller+move.From.Offset), uint64(move.Bytes))
		} else {
			w.writePlace(move.To, callee, lane, move.Bytes, values[i])
		}
	}
	w.stacks[lane&31] = append(w.stacks[lane&31], top)
	*base = callee
}

// ret returns from a function. Lanes that are not in a function exit.
func (w *warp) ret(mask uint32) {
	for mask != 0 {
		lane := lowestLane(mask)
		if len(w.stacks[lane&31]) == 0 {
			ended := uint32(0)
			for m := mask; m != 0; m &= m - 1 {
				if i := bits.TrailingZeros32(m) & 31; len(w.stacks[i]) == 0 {
					ended |= 1 << i
				}
			}
			mask &^= ended
			w.exit(ended)
			continue
		}
		pc := w.topFrame(lane).pc
		same := uint32(0)
		for m := mask; m != 0; m &= m - 1 {
			if i := bits.TrailingZeros32(m) & 31; len(w.stacks[i]) > 0 && w.topFrame(i).pc == pc {
				same |= 1 << i
				w.returnLane(i)
			}
		}
		mask &^= same
		w.jump(same, pc)
	}
	w.reconvergeIfDiverged()
}

// topFrame returns a lane's innermost frame.
func (w *warp) topFrame(lane int) *frame {
	stack := w.stacks[lane&31]
	return &stack[len(stack)-1]
}

// returnLane passes results back and restores the caller's frame and registers.
func (w *warp) returnLane(lane int) {
	base := &w.v32(w.block.kernel.Frame)[lane&31]
	top, callee := *w.topFrame(lane), *base
	w.stacks[lane&31] = w.stacks[lane&31][:len(w.stacks[lane&31])-1]
	var few [16]uint64
	values := few[:]
	if len(top.site.Rets) > len(few) {
		values = make([]uint64, len(top.site.Rets))
	}
	for i, move := range top.site.Rets {
		if move.From.InFrame && move.To.InFrame {
			w.copyLocal(lane, uint64(top.frame+move.To.Offset), uint64(callee+move.From.Offset), uint64(move.Bytes))
		} else {
			values[i] = w.readPlace(move.From, callee, lane, move.Bytes)
		}
	}
	switch {
	case top.site.Within != nil && !top.site.Indirect.Sink:
		for _, each := range top.site.Within.Functions {
			top.saved = w.restore(each, lane, top.saved)
		}
		w.fillCallee(top.site.Within, 1<<(lane&31))
	case top.saved != nil:
		w.restore(top.function, lane, top.saved)
	}
	*base = top.frame
	for i, move := range top.site.Rets {
		if !move.From.InFrame || !move.To.InFrame {
			w.writePlace(move.To, top.frame, lane, move.Bytes, values[i])
		}
	}
}

// readPlace reads up to 8 bytes of a place of the function whose frame begins at base.
func (w *warp) readPlace(p code.Place, base uint32, lane int, bytes uint32) uint64 {
	if !p.InFrame {
		return w.read(p.Ref, lane)
	}
	var raw [8]byte
	n := min(bytes, 8)
	copy(raw[:n], w.laneBytes(lane, uint64(base+p.Offset), uint64(n)))
	return binary.LittleEndian.Uint64(raw[:])
}

// writePlace writes up to 8 bytes of such a place.
func (w *warp) writePlace(p code.Place, base uint32, lane int, bytes uint32, v uint64) {
	if !p.InFrame {
		w.write(p.Ref, lane, v)
		return
	}
	var raw [8]byte
	binary.LittleEndian.PutUint64(raw[:], v)
	n := min(bytes, 8)
	copy(w.laneBytes(lane, uint64(base+p.Offset), uint64(n)), raw[:n])
}

// save appends one lane of all registers of a function.
func (w *warp) save(f *code.Function, lane int, saved []uint64) []uint64 {
	for i := range uint32(f.Narrow.Count) {
		saved = append(saved, uint64(w.v32(f.Narrow.First + i*f.Narrow.Stride)[lane&31]))
	}
	for i := range uint32(f.Wide.Count) {
		saved = append(saved, w.v64(f.Wide.First + i*f.Wide.Stride)[lane&31])
	}
	for p := f.SavePredicates[0]; p < f.SavePredicates[1]; p++ {
		saved = append(saved, uint64(w.predicates[p]>>lane&1))
	}
	return saved
}

// restore is the inverse of save. It returns what is left of saved.
func (w *warp) restore(f *code.Function, lane int, saved []uint64) []uint64 {
	next := func() uint64 {
		v := saved[0]
		saved = saved[1:]
		return v
	}
	for i := range uint32(f.Narrow.Count) {
		w.v32(f.Narrow.First + i*f.Narrow.Stride)[lane&31] = uint32(next())
	}
	for i := range uint32(f.Wide.Count) {
		w.v64(f.Wide.First + i*f.Wide.Stride)[lane&31] = next()
	}
	for p := f.SavePredicates[0]; p < f.SavePredicates[1]; p++ {
		w.setPredicate(uint32(p), 1<<lane, uint32(next())<<lane)
	}
	return saved
}
