package soft

import (
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/phos-gpu/phos/daemon/gpu"
	"github.com/phos-gpu/phos/daemon/gpu/soft/model"
	"github.com/phos-gpu/phos/daemon/gpu/soft/simt"
	"github.com/phos-gpu/phos/hijack/abi"
	"github.com/phos-gpu/phos/internal/ptx"
)

// Function is a kernel of a module.
type Function struct {
	module *Module
	kernel *simt.Kernel
	// blank is set for kernels that do nothing.
	blank bool
	// required is the block shape that the kernel requires, or zero.
	required [3]uint32

	// maxThreads and maxDynamic are the limits for launches.
	maxThreads, maxDynamic atomic.Uint32

	mu   sync.Mutex
	info gpu.FunctionInfo // SetAttribute changes its attributes
}

// newFunction adds the device's attributes to those that the interpreter knows.
func newFunction(m *Module, kernel *simt.Kernel, texts []*ptx.Module) *Function {
	f := &Function{module: m, kernel: kernel, info: kernel.Info()}
	a := &f.info.Attributes
	a[abi.FuncBinaryVersion] = int32(m.context.backend.spec.CC)
	a[abi.FuncMaxDynamicSharedBytes] = model.PlainSharedBytes - min(model.PlainSharedBytes, a[abi.FuncSharedBytes])
	a[abi.FuncPreferredSharedCarveout] = -1 // no preference: the driver chooses
	if code := m.blank[f.info.Name]; code != nil {
		f.blank = true
		a[abi.FuncNumRegs], a[abi.FuncSharedBytes] = code.Registers, int32(code.SharedBytes)
		a[abi.FuncMaxDynamicSharedBytes] = model.PlainSharedBytes - min(model.PlainSharedBytes, a[abi.FuncSharedBytes])
		f.required = code.RequiredThreads
	} else if entry := findEntry(texts, f.info.Name); entry != nil {
		a[abi.FuncNumRegs] = limitRegisters(a[abi.FuncNumRegs], a[abi.FuncMaxThreadsPerBlock], maxRegisters(entry, texts))
		f.required = entry.RequiredThreads
	}
	f.maxThreads.Store(uint32(a[abi.FuncMaxThreadsPerBlock]))
	f.maxDynamic.Store(uint32(a[abi.FuncMaxDynamicSharedBytes]))
	return f
}

func findEntry(texts []*ptx.Module, name string) *ptx.Func {
	for _, text := range texts {
		for _, f := range text.Funcs {
			if f.Entry && f.Name == name {
				return f
			}
		}
	}
	return nil
}

// maxRegisters returns the smaller limit of a kernel's .maxnreg and the program's JIT option, 0 for
// none.
func maxRegisters(entry *ptx.Func, texts []*ptx.Module) uint32 {
	limit := entry.MaxRegisters
	for _, text := range texts {
		if n := text.MaxRegisters; n > 0 && (limit == 0 || n < limit) {
			limit = n
		}
	}
	return limit
}

// limitRegisters limits an estimate as a compiler spills: to .maxnreg if that is not 0, and so that
// the registers of a multiprocessor suffice for a block of maxThreads. Registers are not a real
// limit here, so a launch never fails for them.
func limitRegisters(estimate, maxThreads int32, maxnreg uint32) int32 {
	const unit = 8 // of the hardware's allocation
	limit := min(model.Registers/max(maxThreads, 1)/unit*unit, model.MaxRegistersPerThread)
	if maxnreg > 0 {
		limit = min(limit, int32(min(maxnreg, model.MaxRegistersPerThread)))
	}
	return min(estimate, limit)
}

// Info returns what programs can query about the kernel.
func (f *Function) Info() gpu.FunctionInfo {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.info
}

// SetAttribute sets one of the settable attributes.
func (f *Function) SetAttribute(attribute, value int32) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	refuse := func(detail string) error {
		return &gpu.Error{
			Op:     "set function attribute",
			Code:   abi.InvalidValue,
			Detail: fmt.Sprintf("%d to %d: %s", attribute, value, detail),
		}
	}
	switch a := abi.FunctionAttribute(attribute); a {
	case abi.FuncMaxDynamicSharedBytes:
		maxDynamic := int32(f.module.context.backend.spec.Limits().BlockSharedBytes) - f.info.Attributes[abi.FuncSharedBytes]
		if value < 0 || value > maxDynamic {
			return refuse(fmt.Sprintf("the maximum is %d", maxDynamic))
		}
		f.maxDynamic.Store(uint32(value))
	case abi.FuncPreferredSharedCarveout:
		if value < -1 || value > 100 {
			return refuse("not a percentage from -1 to 100")
		}
	case abi.FuncNonPortableClusterSizeAllowed, abi.FuncClusterSchedulingPolicy:
	case abi.FuncRequiredClusterWidth, abi.FuncRequiredClusterHeight, abi.FuncRequiredClusterDepth:
		if value > 1 && !f.module.context.backend.spec.Clusters() {
			return &gpu.Error{
				Op:     "set function attribute",
				Code:   abi.NotSupported,
				Detail: "the software GPU has no clusters",
			}
		}
	default:
		return refuse("the attribute is read-only")
	}
	f.info.Attributes[attribute] = value
	return nil
}
