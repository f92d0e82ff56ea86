package simt

import (
	"context"

	"github.com/phos-gpu/phos/daemon/gpu"
	"github.com/phos-gpu/phos/daemon/gpu/ptx"
	"github.com/phos-gpu/phos/hijack/abi"
)

// Kernel is one entry point of a Program.
type Kernel struct {
	info gpu.FunctionInfo
}

// Info is what programs ask about a kernel.
func (k *Kernel) Info() gpu.FunctionInfo { return k.info }

// Link makes a program of one or more modules: it places and initialises their variables (place finds device memory, backed
// and zeroed) and lowers every function. An instruction that cannot be executed is refused here, by name.
func Link(modules []*ptx.Module, place func(name string, bytes, align uint64) (uint64, error), memory *Memory) (*Program, error) {
	return nil, abi.NotSupported
}

func (e *Engine) run(ctx context.Context, k *Kernel, launch Launch, memory *Memory, output func([]byte)) error {
	return abi.NotSupported
}
