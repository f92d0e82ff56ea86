package simt

import (
	"math"

	"github.com/phos-gpu/phos/daemon/gpu/soft/simt/code"
)

const (
	warpLanes = 32
	fullMask  = 0xffffffff
	noJoin    = math.MaxInt32 // the join of a warp whose lanes are together
)

// group is a set of lanes of a warp that wait at one place while others run.
type group struct {
	pc   int32
	mask uint32
	why  reason
	// barrier is the number of the barrier, where that is the reason.
	barrier int32
	in      *code.Inst // the barrier instruction, for its result
}

// reason is why a group does not run.
type reason uint8

const (
	runnable      reason = iota
	atBarrier            // of the block
	atConvergence        // at an instruction that more lanes of the warp must reach
)

// warp is 32 threads. Lanes that are together have one program counter; when they diverge, the
// group with the lowest one runs first, which lets groups meet again where their ways do.
type warp struct {
	registers
	block *block
	index int

	pc    int32
	mask  uint32 // the lanes that run now
	alive uint32 // lanes that exist and have not exited
	// join is the lowest place at which the running group meets or must let pass another.
	join   int32
	groups []group
	// force lets a group go on although lanes that it should wait for cannot come any more.
	force  bool
	carry  uint32 // the carry flags
	stacks [warpLanes][]frame
	local  []byte // warpLanes times the kernel's LocalBytes
}

// begin puts the warp at the start of a kernel with the given lanes.
func (w *warp) begin(entry int32, lanes uint32) {
	w.pc, w.mask, w.alive, w.join = entry, lanes, lanes, noJoin
	w.groups = w.groups[:0]
	w.force = false
	for i := range w.stacks {
		w.stacks[i] = w.stacks[i][:0]
	}
}

// diverge splits the running group: taken goes to target, the rest goes on.
func (w *warp) diverge(taken uint32, target int32) {
	w.groups = append(w.groups, group{pc: target, mask: taken})
	w.mask &^= taken
	w.reconverge()
}

// reconverge brings the running group together with others at the same place, and gives way to one that
// is further behind. It is called when the group reaches join, and after every jump while there are
// groups.
func (w *warp) reconverge() {
	w.mergeGroups()
	if lowest := w.lowestRunnable(); lowest >= 0 && w.groups[lowest].pc < w.pc {
		w.groups = append(w.groups, group{pc: w.pc, mask: w.mask})
		w.switchTo(lowest)
		w.mergeGroups()
	}
	w.updateJoin()
}

// mergeGroups merges the groups at the running group's place into it.
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

// lowestRunnable finds the runnable group that is furthest behind, -1 where there is none.
func (w *warp) lowestRunnable() int {
	best := -1
	for i, g := range w.groups {
		if g.why == runnable && (best < 0 || g.pc < w.groups[best].pc) {
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

func (w *warp) updateJoin() {
	w.join = noJoin
	for _, g := range w.groups {
		if g.why != atBarrier && g.pc > w.pc {
			w.join = min(w.join, g.pc)
		}
	}
}

// resumeNext picks a group to run after the running one has exited or blocked; false where there is none.
func (w *warp) resumeNext() bool {
	i := w.lowestRunnable()
	if i < 0 {
		if i = w.lowestWaiting(); i < 0 {
			return false
		}
		w.force = true // nobody is left who could come
	}
	w.switchTo(i)
	w.mergeGroups()
	w.updateJoin()
	return true
}

// lowestWaiting finds the group of lowest place that waits for lanes of its warp.
func (w *warp) lowestWaiting() int {
	best := -1
	for i, g := range w.groups {
		if g.why == atConvergence && (best < 0 || g.pc < w.groups[best].pc) {
			best = i
		}
	}
	return best
}

// suspend takes the running group off: it will be found again at pc when the reason is gone.
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

// rotate lets the group that has waited longest run for a while although others are behind it: a
// lane that spins for a lock which another lane of its warp holds would else spin for ever. It
// returns false where lanes are together.
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

// awaitMembers reports whether the running lanes may execute an instruction that the lanes of members
// must execute with each other. If not, the group waits and the instruction will be executed again.
func (w *warp) awaitMembers(members uint32) bool {
	if members&w.alive&^w.mask == 0 || w.force || len(w.groups) == 0 {
		w.force = false
		return true
	}
	w.suspend(w.pc-1, atConvergence)
	return false
}
