package simt

import (
	"context"
	"runtime"
	"sync"

	"github.com/phos-gpu/phos/daemon/gpu/soft/simt/space"
)

// Memory is an address space that kernels run in; see package space.
type Memory = space.Memory

// Options configure an Engine.
type Options struct {
	// Cores is the number of goroutines that a launch may use; 0 means one per processor.
	Cores int
	// Multiprocessors is what %nsmid reads: kernels size tables by it, or by the attribute of the
	// device, and index them with %smid, which is always less. 0 means Cores.
	Multiprocessors int
	// Deterministic runs the blocks of a launch in order on one goroutine, one launch at a time, with
	// a clock that counts instructions, so that the same program gives the same bits.
	Deterministic bool
}

// Engine runs kernels. Run may be called from several goroutines at once.
type Engine struct {
	options Options
	// serial admits one launch at a time in deterministic mode.
	serial sync.Mutex
}

// NewEngine makes an engine.
func NewEngine(options Options) *Engine {
	if options.Cores <= 0 {
		options.Cores = runtime.GOMAXPROCS(0)
	}
	if options.Multiprocessors <= 0 {
		options.Multiprocessors = options.Cores
	}
	return &Engine{options: options}
}

// Launch is the shape and the arguments of one kernel launch.
type Launch struct {
	Grid, Block [3]uint32
	// SharedBytes is dynamic shared memory per block.
	SharedBytes uint32
	// Params is the packed parameter block. It is not kept after Run returns.
	Params []byte
	// Cooperative promises that all blocks are in flight together, so that a barrier across the grid
	// works.
	Cooperative bool
	// GridID is what %gridid reads.
	GridID uint64
}

// Run executes a kernel and returns when all its blocks are done, with a *Fault, or with ctx's
// error soon after ctx is cancelled. output receives what the kernel prints and may be nil; it is
// called from one goroutine at a time.
func (e *Engine) Run(ctx context.Context, k *Kernel, launch Launch, memory *Memory, output func([]byte)) error {
	return e.run(ctx, k, launch, memory, output)
}
