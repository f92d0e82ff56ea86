package simt

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/phos-gpu/phos/daemon/gpu/soft/simt/code"
	"github.com/phos-gpu/phos/daemon/gpu/soft/simt/space"
	"github.com/phos-gpu/phos/hijack/abi"
)

const (
	// quantum is how many instructions a block runs before other blocks of its runner get a turn, if
	// it may be waiting for them. firstQuantum is the same for the first turn of a block that shows no
	// sign of waiting; most blocks end in it.
	quantum      = 1 << 19
	firstQuantum = 1 << 22
	// residentBytes is the maximum of memory for blocks in flight on one runner.
	residentBytes = 512 << 20
	// maxBlockThreads is the architecture's limit.
	maxBlockThreads = 1024
)

// run is one launch in progress.
type run struct {
	kernel        *code.Kernel
	launch        Launch
	program       *Program
	memory        *Memory
	deterministic bool
	runners       int
	processors    int // multiprocessors, as kernels see them
	blocks        uint64
	workspace     uint64        // address of the workspace of a cooperative launch, or 0
	next          atomic.Uint64 // the next block to start
	stop          atomic.Bool

	mu     sync.Mutex
	err    error // the first fault
	output func([]byte)
}

// runner is a goroutine that executes blocks.
type runner struct {
	run    *run
	memory *Memory
	number int
	reader *space.Reader
	// version is the version of the spans behind the sites.
	version uint64
	sites   []site
	ticks   uint64
	// grown is the most that a block has needed beyond what it had at first.
	grown uint64
}

// run executes a launch on several runners.
func (e *Engine) run(ctx context.Context, k *Kernel, launch Launch, memory *Memory, output func([]byte)) error {
	if err := k.check(&launch); err != nil {
		return err
	}
	if e.options.Deterministic {
		e.serial.Lock()
		defer e.serial.Unlock()
	}
	r := &run{
		kernel: k.code, launch: launch, program: k.program, memory: memory, deterministic: e.options.Deterministic,
		processors: e.options.Multiprocessors,
		blocks:     uint64(launch.Grid[0]) * uint64(launch.Grid[1]) * uint64(launch.Grid[2]), output: output,
	}
	if output == nil {
		r.output = func([]byte) {}
	}
	workspace, err := k.program.acquireWorkspace(ctx, &launch, memory)
	if err != nil {
		return err
	}
	defer k.program.releaseWorkspace(workspace)
	r.workspace = workspace
	r.runners = int(min(uint64(e.options.Cores), r.blocks))
	if e.options.Deterministic {
		r.runners = 1
	}
	cancel := context.AfterFunc(ctx, func() { r.fail(ctx.Err()) })
	defer cancel()
	if err := ctx.Err(); err != nil {
		return err
	}
	var others sync.WaitGroup
	for i := 1; i < r.runners; i++ {
		others.Go(func() { r.work(i) })
	}
	r.work(0)
	others.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.err
}

// check returns an error for a launch shape that the kernel or the architecture does not allow.
func (k *Kernel) check(launch *Launch) error {
	threads := uint64(launch.Block[0]) * uint64(launch.Block[1]) * uint64(launch.Block[2])
	blocks := uint64(launch.Grid[0]) * uint64(launch.Grid[1]) * uint64(launch.Grid[2])
	switch {
	case threads == 0 || blocks == 0 || threads > maxBlockThreads:
		return fmt.Errorf(
			"launch %s with grid %v and block %v: %w",
			k.code.Name,
			launch.Grid,
			launch.Block,
			abi.InvalidValue,
		)
	case uint64(len(launch.Params)) < k.code.ParamBytes:
		return fmt.Errorf(
			"launch %s with %d bytes of parameters of %d: %w",
			k.code.Name,
			len(launch.Params),
			k.code.ParamBytes,
			abi.InvalidValue,
		)
	case !blockFits(launch.Block, k.code.RequiredThreads, k.code.MaxThreads):
		return fmt.Errorf(
			"launch %s with block %v, which its directives exclude: %w",
			k.code.Name,
			launch.Block,
			abi.InvalidValue,
		)
	}
	return nil
}

// blockFits compares a block with .reqntid, which must match exactly, and .maxntid, whose product
// is the limit.
func blockFits(block, required, maxThreads [3]uint32) bool {
	if required[0] != 0 {
		for i, n := range required {
			if block[i] != max(n, 1) {
				return false
			}
		}
	}
	limit := uint64(max(maxThreads[0], 1)) * uint64(max(maxThreads[1], 1)) * uint64(max(maxThreads[2], 1))
	return maxThreads[0] == 0 || uint64(block[0])*uint64(block[1])*uint64(block[2]) <= limit
}

// fail stops the launch with its first error.
func (r *run) fail(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.err == nil {
		r.err = err
	}
	r.stop.Store(true)
}

// printText passes text to the program's output, one runner at a time.
func (r *run) printText(text []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.output(text)
}

// work executes blocks until none is left.
func (r *run) work(number int) {
	w := &runner{
		run:    r,
		memory: r.memory,
		number: number,
		reader: space.NewReader(),
		sites:  make([]site, r.kernel.Text().Sites),
	}
	defer w.reader.Release()
	w.version = w.reader.Enter()
	defer w.reader.Exit()
	defer func() {
		if failure := recover(); failure != nil {
			r.fail(faultOf(failure, r.kernel.Name))
		}
	}()
	w.runBlocks()
}

// tick is called between turns. It lets mappings and dirty bits change, and reports whether the run
// goes on.
func (r *runner) tick() bool {
	r.reader.Tick()
	r.refresh()
	return !r.run.stop.Load()
}

// growSites makes room for the sites of new callees.
func (r *runner) growSites(count int32) {
	if more := int(count) - len(r.sites); more > 0 {
		r.sites = append(r.sites, make([]site, more)...)
	}
}

// refresh drops all sites if their spans are stale.
func (r *runner) refresh() {
	if v := r.reader.Version(); v != r.version {
		r.version = v
		clear(r.sites)
	}
}

// runBlocks runs blocks until none is left. A block that runs for long may wait for a block that
// has not started. It is parked then, the next block starts, and all blocks in flight take turns.
func (r *runner) runBlocks() {
	var waiting []*block
	var free *block
	for {
		b := free
		free = nil
		linear := uint64(0)
		begun := false
		if len(waiting) < r.maxResident() {
			linear = r.run.next.Add(1) - 1
			begun = linear < r.run.blocks
		}
		switch {
		case begun:
			if b == nil {
				b = newBlock(r)
			}
			b.begin(linear)
		case len(waiting) > 0:
			free = b
			b = waiting[0]
			waiting = waiting[1:]
		default:
			return
		}
		done, ok := r.turn(b)
		switch {
		case !ok:
			return
		case done:
			free = b
		default:
			waiting = append(waiting, b)
		}
	}
}

// turn runs a block until it ends or its time is over. ok is false when the run is stopped.
func (r *runner) turn(b *block) (done, ok bool) {
	spent := 0
	for {
		used, done := b.step()
		if done {
			return true, true
		}
		if r.run.stop.Load() {
			return false, false
		}
		spent += used
		if spent >= quantum && (r.run.launch.Cooperative || spent >= firstQuantum || used >= yieldCost || b.parked) {
			b.parked = true
			return false, true
		}
	}
}

// maxResident returns how many blocks may be parked.
func (r *runner) maxResident() int {
	if r.run.launch.Cooperative {
		return int(min(r.run.blocks, 1<<20))
	}
	k, launch := r.run.kernel, r.run.launch
	warps := (uint64(launch.Block[0])*uint64(launch.Block[1])*uint64(launch.Block[2]) + warpLanes - 1) / warpLanes
	bytes := warps*(uint64(k.RegisterBytes)+warpLanes*k.LocalBytes+4096) + k.StaticShared + uint64(launch.SharedBytes) + r.grown
	return int(max(residentBytes/bytes, 2))
}
