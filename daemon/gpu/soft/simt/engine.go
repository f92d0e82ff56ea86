package simt

import (
	"context"
	"runtime"
	"sync"

	"github.com/phos-gpu/phos/daemon/gpu/soft/simt/space"
)

// Memory is the address space that kernels run in; see package space.
type Memory = space.Memory

// Options configure an Engine.
type Options struct {
	// Cores is the number of goroutines per launch; 0 means one per processor.
	Cores int
	// Multiprocessors is the value of %nsmid; 0 means Cores. Kernels size tables by it, or by the
	// device attribute, and index them with %smid, which is always smaller.
	Multiprocessors int
	// Deterministic runs the blocks of a launch in order on one goroutine, one launch at a time, with
	// a clock that counts instructions. The same program then gives the same bits.
	Deterministic bool
}

// Engine runs kernels. Run may be called concurrently.
type Engine struct {
	options Options
	// serial runs one launch at a time in deterministic mode.
	serial sync.Mutex
}

// NewEngine returns an engine.
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
	// SharedBytes is the dynamic shared memory per block.
	SharedBytes uint32
	// Params is the packed parameter block. Run does not keep it.
	Params []byte
	// Cooperative guarantees that all blocks are in flight at the same time, so that a grid-wide
	// barrier works.
	Cooperative bool
	// GridID is the value of %gridid.
	GridID uint64
}

// Run executes a kernel. It returns when all blocks are done, with a *Fault on a fault, or with
// ctx's error soon after ctx is cancelled. output receives what the kernel prints, from one
// goroutine at a time; it may be nil.
func (e *Engine) Run(ctx context.Context, k *Kernel, launch Launch, memory *Memory, output func([]byte)) error {
	return e.run(ctx, k, launch, memory, output)
}
