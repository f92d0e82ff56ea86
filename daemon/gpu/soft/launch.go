package soft

import (
	"fmt"
	"runtime"

	"github.com/phos-gpu/phos/daemon/gpu"
	"github.com/phos-gpu/phos/daemon/gpu/soft/model"
	"github.com/phos-gpu/phos/daemon/gpu/soft/simt"
	"github.com/phos-gpu/phos/hijack/abi"
)

// checkLaunch refuses what the driver refuses at the call.
func (c *Context) checkLaunch(w gpu.Launch) error {
	f, known := w.Function.(*Function)
	if !known || f.module.context != c || f.module.closed.Load() {
		return &gpu.Error{Op: "launch", Code: abi.InvalidHandle, Detail: "no function of a loaded module of this context"}
	}
	refuse := func(code abi.Result, format string, args ...any) error {
		return &gpu.Error{Op: "launch " + f.info.Name, Code: code, Detail: fmt.Sprintf(format, args...)}
	}
	blocks := uint64(w.Grid[0]) * uint64(w.Grid[1]) * uint64(w.Grid[2])
	threads := uint64(w.Block[0]) * uint64(w.Block[1]) * uint64(w.Block[2])
	switch {
	case blocks == 0 || w.Grid[0] > model.MaxGridX || w.Grid[1] > model.MaxGridYZ || w.Grid[2] > model.MaxGridYZ:
		return refuse(abi.InvalidValue, "grid %v", w.Grid)
	case threads == 0 || w.Block[0] > model.MaxBlockThreads || w.Block[1] > model.MaxBlockThreads || w.Block[2] > model.MaxBlockZ || threads > model.MaxBlockThreads:
		return refuse(abi.InvalidValue, "block %v", w.Block)
	case threads > uint64(f.maxThreads.Load()):
		return refuse(abi.InvalidValue, "%d threads, the kernel allows %d", threads, f.maxThreads.Load())
	case f.required[0] != 0 && (w.Block[0] != f.required[0] || w.Block[1] != max(f.required[1], 1) || w.Block[2] != max(f.required[2], 1)):
		return refuse(abi.InvalidValue, "block %v, the kernel requires %v", w.Block, f.required)
	case w.SharedBytes > f.maxDynamic.Load():
		return refuse(abi.InvalidValue, "%d bytes of dynamic shared memory, at most %d", w.SharedBytes, f.maxDynamic.Load())
	case uint64(len(w.Params)) < uint64(f.info.ParamBytes) || len(w.Params) > model.MaxParamBytes:
		return refuse(abi.InvalidValue, "%d bytes of parameters, not %d", len(w.Params), f.info.ParamBytes)
	}
	if w.Cooperative {
		if fit, err := f.ActiveBlocks(int(threads), uint64(w.SharedBytes)); err != nil || blocks > uint64(fit)*model.Multiprocessors {
			return refuse(abi.CooperativeLaunchTooLarge, "%d blocks, %d fit", blocks, fit*model.Multiprocessors)
		}
	}
	return nil
}

func (c *Context) launch(w gpu.Launch) error {
	c.backend.kernels.Add(1)
	defer c.backend.kernels.Add(-1)
	f := w.Function.(*Function) // as checkLaunch found it
	return c.backend.engine.Run(c.running, f.kernel, simt.Launch{
		Grid:        w.Grid,
		Block:       w.Block,
		SharedBytes: w.SharedBytes,
		Params:      w.Params,
		Cooperative: w.Cooperative,
		GridID:      c.launches.Add(1),
	}, c.device.space, c.output)
}

// idleCores is how many processors memory work may use now: all, or one beside a kernel.
func (b *Backend) idleCores() int {
	if b.kernels.Load() > 0 {
		return 1
	}
	if b.spec.Cores > 0 {
		return b.spec.Cores
	}
	return runtime.GOMAXPROCS(0)
}
