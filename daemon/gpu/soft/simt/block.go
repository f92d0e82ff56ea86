package simt

import (
	"github.com/phos-gpu/phos/daemon/gpu/soft/simt/code"
	"github.com/phos-gpu/phos/hijack/abi"
)

// turnInstructions is how many instructions a warp runs before the next warp of its block.
const turnInstructions = 4096

// block is a thread block in flight. It belongs to one runner.
type block struct {
	kernel *code.Kernel
	runner *runner
	launch *Launch

	index    [3]uint32
	warps    []warp
	threads  uint32
	shared   site
	barriers [16]barrier
	live     int  // parked by its runner, because it may wait for other blocks
	parked   bool // it has been set aside: it may wait for others
	grown    uint64
}

// newBlock allocates a block for a launch. It is reused for one block after another.
func newBlock(r *runner) *block {
	k, launch := r.run.kernel, &r.run.launch
	b := &block{kernel: k, runner: r, launch: launch, threads: launch.Block[0] * launch.Block[1] * launch.Block[2]}
	count := int(b.threads+warpLanes-1) / warpLanes
	words := int(k.RegisterBytes / 8)
	registers := alignedWords(count * words)
	predicates := make([]uint32, count*int(k.Predicates))
	sharedBytes := k.StaticShared + uint64(launch.SharedBytes)
	b.shared = sharedSite(alignedWords(int(sharedBytes+7)/8), sharedBytes)
	b.warps = make([]warp, count)
	for i := range b.warps {
		w := &b.warps[i]
		w.block, w.index = b, i
		w.registers = newRegisters(
			registers[i*words:(i+1)*words],
			predicates[i*int(k.Predicates):(i+1)*int(k.Predicates)],
		)
		if w.localBytes = k.LocalBytes; w.localBytes > 0 {
			w.local = make([]byte, warpLanes*w.localBytes)
		}
		w.fill(&k.Block, fullMask)
	}
	return b
}

// grow counts memory that the block needs for callees and deep calls.
func (b *block) grow(bytes int) {
	b.grown += uint64(bytes)
	b.runner.grown = max(b.runner.grown, b.grown)
}

// begin initializes the block for index linear of the grid.
func (b *block) begin(linear uint64) {
	grid := b.launch.Grid
	b.index = [3]uint32{
		uint32(linear % uint64(grid[0])), uint32(linear / uint64(grid[0]) % uint64(grid[1])),
		uint32(linear / uint64(grid[0]) / uint64(grid[1])),
	}
	b.barriers = [16]barrier{}
	b.live = len(b.warps)
	b.parked = false
	for i := range b.warps {
		w := &b.warps[i]
		lanes := uint32(fullMask)
		if left := b.threads - uint32(i)*warpLanes; left < warpLanes {
			lanes = 1<<left - 1
		}
		w.begin(b.kernel.Entry, lanes)
		w.setSpecials()
	}
}

// step runs every warp for one turn and returns how many instructions they used. done reports that
// the block has ended. step panics with a fault and returns early when the run is stopped.
func (b *block) step() (used int, done bool) {
	progress := false
	for i := range b.warps {
		w := &b.warps[i]
		if w.alive == 0 || w.mask == 0 && !w.resumeNext() {
			continue
		}
		if !b.runner.tick() {
			return used, false
		}
		progress = true
		left := w.run(turnInstructions)
		used += turnInstructions - left
		if left <= 0 && w.mask != 0 && len(w.groups) > 0 {
			w.rotate()
		}
	}
	if b.live == 0 {
		return used, true
	}
	if !progress {
		panic(b.deadlockFault())
	}
	return used, false
}

// refusal is the fault of a lane that comes to code that cannot be executed, for a reason.
func (w *warp) refusal(lane int, reason string) *Fault {
	f := w.fault(lane, abi.IllegalInstruction, 0)
	f.Detail = reason
	return f
}

// deadlockFault returns the fault of a block in which every thread waits at a barrier that cannot
// complete. Hardware would hang.
func (b *block) deadlockFault() *Fault {
	for i := range b.warps {
		w := &b.warps[i]
		for _, g := range w.groups {
			w.pc = g.pc
			f := w.fault(lowestLane(g.mask), abi.LaunchFailed, 0)
			f.Detail = "deadlock: every thread of the block waits at a barrier that cannot complete"
			return f
		}
	}
	return &Fault{
		Kind:   abi.LaunchFailed,
		Kernel: b.kernel.Name,
		Block:  b.index,
		Detail: "deadlock: the block has no runnable thread",
	}
}

// lanesExited updates live after lanes have exited and releases barriers that waited only for them.
func (b *block) lanesExited() {
	live := 0
	for i := range b.warps {
		if b.warps[i].alive != 0 {
			live++
		}
	}
	b.live = live
	for id := range b.barriers {
		b.releaseIfComplete(int32(id))
	}
}

// threadIndex returns the index of a lane's thread in the block.
func (w *warp) threadIndex(lane int) [3]uint32 {
	n := uint32(w.index)*warpLanes + uint32(lane)
	size := w.block.launch.Block
	return [3]uint32{n % size[0], n / size[0] % size[1], n / size[0] / size[1]}
}

// fault describes a fault of a lane at the instruction before w.pc.
func (w *warp) fault(lane int, kind abi.Result, address uint64) *Fault {
	f := &Fault{
		Kind:    kind,
		Kernel:  w.block.kernel.Name,
		Address: address,
		Block:   w.block.index,
		Thread:  w.threadIndex(lane & 31),
	}
	if sources, at := w.block.kernel.Text().Sources, int(w.pc)-1; at >= 0 && at < len(sources) {
		source := sources[at]
		f.Instruction, f.Pos = source.Inst.String(), source.Inst.Pos
		if source.Function != f.Kernel {
			f.Detail = "in function " + source.Function
		}
	}
	return f
}
