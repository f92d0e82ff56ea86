package simt

import (
	"math"

	"github.com/phos-gpu/phos/daemon/gpu/soft/simt/code"
)

const (
	warpLanes = 32
	fullMask  = 0xffffffff
	noJoin    = math.MaxUint32 // the join of a converged warp
)

// group is a set of lanes of a warp that do not run: they wait, or another group runs first.
type group struct {
	pc   int32
	mask uint32
	why  reason
	// barrier is the barrier's number if why is atBarrier.
	barrier int32
	in      *code.Inst // the barrier instruction, for its result
}

// reason is why a group does not run.
type reason uint8

const (
	runnable      reason = iota
	atBarrier            // of the block
	atConvergence        // at an instruction for which more lanes must converge
)

// warp is 32 threads. Converged lanes share one program counter. When lanes diverge, the group with
// the lowest program counter runs first, so that groups meet again where their paths join.
type warp struct {
	registers
	block *block
	index int

	pc    int32
	mask  uint32 // the running lanes
	alive uint32 // lanes that exist and have not exited
	// join is the lowest place at which the running group merges with another or yields to it.
	join   uint32
	groups []group
	// force lets a group execute a converging instruction although some of its lanes can no longer
	// arrive.
	force  bool
	carry  uint32 // the carry flags
	stacks [warpLanes][]frame
	// callees are those whose part of the register block the lanes have filled last.
	callees    [warpLanes]*code.Callee
	local      []byte // warpLanes times localBytes
	localBytes uint64 // of a lane
}

// begin starts the given lanes at the entry of a kernel.
func (w *warp) begin(entry int32, lanes uint32) {
	w.pc, w.mask, w.alive, w.join = entry, lanes, lanes, noJoin
	w.groups = w.groups[:0]
	w.force = false
	w.callees = [warpLanes]*code.Callee{}
	for i := range w.stacks {
		w.stacks[i] = w.stacks[i][:0]
	}
}

// place orders program counters: functions come before their callers, so that groups of lanes meet
// again behind a call.
func (w *warp) place(pc int32) uint32 { return uint32(pc) - w.block.kernel.Own }

// diverge splits the running group: taken jumps to target, the rest continues.
func (w *warp) diverge(taken uint32, target int32) {
	w.groups = append(w.groups, group{pc: target, mask: taken})
	w.mask &^= taken
	w.reconverge()
}

// reconverge merges the running group with the groups at the same program counter and switches to a
// group with a lower one. It is called when the group reaches join, and after every jump of a
// diverged warp.
func (w *warp) reconverge() {
	w.mergeGroups()
	if lowest := w.lowestRunnable(); lowest >= 0 && w.place(w.groups[lowest].pc) < w.place(w.pc) {
		w.groups = append(w.groups, group{pc: w.pc, mask: w.mask})
		w.switchTo(lowest)
		w.mergeGroups()
	}
	w.updateJoin()
}

// mergeGroups merges the groups at the running group's program counter into it.
func (w *warp) mergeGroups() {
	kept := w.groups[:0]
	for _, g := range w.groups {
		if g.pc == w.pc && g.why != atBarrier {
			w.mask |= g.mask
		} else {
			kept = append(kept, g)
		}
	}
	w.groups = kept
}

// lowestRunnable returns the runnable group with the lowest program counter, or -1.
func (w *warp) lowestRunnable() int {
	best := -1
	for i, g := range w.groups {
		if g.why == runnable && (best < 0 || w.place(g.pc) < w.place(w.groups[best].pc)) {
			best = i
		}
	}
	return best
}

// switchTo makes a group the running one.
func (w *warp) switchTo(i int) {
	w.pc, w.mask = w.groups[i].pc, w.groups[i].mask
	w.groups = append(w.groups[:i], w.groups[i+1:]...)
}

// updateJoin recomputes join.
func (w *warp) updateJoin() {
	w.join = noJoin
	for _, g := range w.groups {
		if g.why != atBarrier && w.place(g.pc) > w.place(w.pc) {
			w.join = min(w.join, w.place(g.pc))
		}
	}
}

// resumeNext switches to another group after the running one has exited or blocked. It returns
// false if no group can run.
func (w *warp) resumeNext() bool {
	i := w.lowestRunnable()
	if i < 0 {
		if i = w.lowestWaiting(); i < 0 {
			return false
		}
		w.force = true // no other lane can arrive
	}
	w.switchTo(i)
	w.mergeGroups()
	w.updateJoin()
	return true
}

// lowestWaiting returns the group with the lowest program counter that waits for lanes of its warp,
// or -1.
func (w *warp) lowestWaiting() int {
	best := -1
	for i, g := range w.groups {
		if g.why == atConvergence && (best < 0 || w.place(g.pc) < w.place(w.groups[best].pc)) {
			best = i
		}
	}
	return best
}

// suspend turns the running lanes into a group that waits at pc.
func (w *warp) suspend(pc int32, why reason) *group {
	w.groups = append(w.groups, group{pc: pc, mask: w.mask, why: why})
	w.mask = 0
	return &w.groups[len(w.groups)-1]
}

// exit ends lanes.
func (w *warp) exit(mask uint32) {
	w.alive &^= mask
	w.mask &^= mask
	w.block.lanesExited()
}

// rotate lets the group that has waited longest run for a turn, although other groups have lower
// program counters. Without it, a lane that spins on a lock held by another lane of its warp would
// spin forever. It returns false if the warp has converged.
func (w *warp) rotate() bool {
	for i, g := range w.groups {
		if g.why == runnable {
			w.groups = append(w.groups, group{pc: w.pc, mask: w.mask})
			w.switchTo(i)
			w.join = noJoin
			return true
		}
	}
	return false
}

// awaitMembers reports whether all lanes of members have converged for an instruction that they
// must execute together. If not, it suspends the running group, which will execute the instruction
// again.
func (w *warp) awaitMembers(members uint32) bool {
	if members&w.alive&^w.mask == 0 || w.force || len(w.groups) == 0 {
		w.force = false
		return true
	}
	w.suspend(w.pc-1, atConvergence)
	return false
}
