package cuda

import (
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/phos-gpu/phos/cgo/cudadrv"
	"github.com/phos-gpu/phos/daemon/gpu"
	"github.com/phos-gpu/phos/daemon/gpu/cuda/codeinfo"
	"github.com/phos-gpu/phos/hijack/abi"
)

// Function is a kernel of a module.
type Function struct {
	module *Module
	native cudadrv.Function
	// maxThreads and maxDynamic are what a launch is checked against.
	maxThreads, maxDynamic atomic.Uint32

	mu   sync.Mutex
	info gpu.FunctionInfo // only its attributes change
}

func newFunction(m *Module, native cudadrv.Function, name string) (*Function, error) {
	f := &Function{module: m, native: native, info: gpu.FunctionInfo{Name: name}}
	params, err := f.params()
	if err != nil {
		return nil, err
	}
	f.info.Params = params
	for _, p := range params {
		f.info.ParamBytes = max(f.info.ParamBytes, p.Offset+p.Bytes)
	}
	c := m.context
	for i := range f.info.Attributes {
		value, err := c.driver.FuncGetAttribute(c.native, int32(i), native)
		if gpu.Code(err).Sticky() {
			return nil, c.noted("ask for attributes of "+name, err)
		}
		if err == nil { // an older driver knows fewer
			f.info.Attributes[i] = value
		}
	}
	f.limit()
	return f, nil
}

// limit takes over what launches are checked against.
func (f *Function) limit() {
	f.maxThreads.Store(uint32(f.info.Attributes[abi.FuncMaxThreadsPerBlock]))
	f.maxDynamic.Store(uint32(f.info.Attributes[abi.FuncMaxDynamicSharedBytes]))
}

// params is the layout of the parameter block: as the driver says it, or one too old to, the code.
func (f *Function) params() ([]gpu.Param, error) {
	c := f.module.context
	var params []gpu.Param
	for i := uint64(0); ; i++ {
		offset, size, err := c.driver.FuncGetParamInfo(c.native, f.native, i)
		switch code := gpu.Code(err); {
		case err == nil:
			params = append(params, gpu.Param{Offset: uint32(offset), Bytes: uint32(size)})
		case code == abi.InvalidValue:
			return params, nil
		case code == abi.NotSupported && i == 0:
			return codeinfo.Params(f.module.image, f.info.Name)
		default:
			return nil, c.noted("ask for parameters of "+f.info.Name, err)
		}
	}
}

// offsets says where each parameter lies.
func (f *Function) offsets() []uint32 {
	out := make([]uint32, len(f.info.Params))
	for i, p := range f.info.Params {
		out[i] = p.Offset
	}
	return out
}

// Info is what programs ask about the kernel.
func (f *Function) Info() gpu.FunctionInfo {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.info
}

// SetAttribute changes one of the changeable attributes.
func (f *Function) SetAttribute(attribute, value int32) error {
	c := f.module.context
	op := fmt.Sprintf("set attribute %d of %s to %d", attribute, f.info.Name, value)
	f.mu.Lock()
	defer f.mu.Unlock()
	if attribute < 0 || int(attribute) >= len(f.info.Attributes) {
		return &gpu.Error{Op: op, Code: abi.InvalidValue}
	}
	if a := abi.FunctionAttribute(attribute); a == abi.FuncMaxDynamicSharedBytes {
		// The driver looks at the sum only at the launch.
		most := c.backend.infos[c.device.ordinal].Attributes[abi.AttrMaxSharedMemoryPerBlockOptin] - f.info.Attributes[abi.FuncSharedBytes]
		if value < 0 || value > most {
			return &gpu.Error{Op: op, Code: abi.InvalidValue, Detail: fmt.Sprintf("at most %d are possible", most)}
		}
	} else if !changeable(a) {
		return &gpu.Error{Op: op, Code: abi.InvalidValue, Detail: "it cannot be set"}
	}
	if err := c.driver.FuncSetAttribute(c.native, f.native, attribute, value); err != nil {
		return c.noted(op, err)
	}
	f.info.Attributes[attribute] = value
	f.limit()
	return nil
}

func changeable(a abi.FunctionAttribute) bool {
	return a > abi.FuncMaxDynamicSharedBytes && a != abi.FuncClusterSizeMustBeSet
}

// ActiveBlocks is the number of blocks of this shape that fit one multiprocessor; 0 where not even one does.
func (f *Function) ActiveBlocks(threadsPerBlock int, dynamicSharedBytes uint64) (int, error) {
	if threadsPerBlock <= 0 {
		return 0, &gpu.Error{Op: "occupancy", Code: abi.InvalidValue, Detail: fmt.Sprintf("%d threads per block", threadsPerBlock)}
	}
	if uint64(threadsPerBlock) > uint64(f.maxThreads.Load()) || dynamicSharedBytes > uint64(f.maxDynamic.Load()) {
		return 0, nil
	}
	c := f.module.context
	n, err := c.driver.OccupancyMaxActiveBlocksPerMultiprocessor(c.native, f.native, int32(threadsPerBlock), dynamicSharedBytes)
	return int(n), c.noted("occupancy", err)
}
