package cuda

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/phos-gpu/phos/cgo/cudadrv"
	"github.com/phos-gpu/phos/daemon/gpu"
	"github.com/phos-gpu/phos/daemon/gpu/codeinfo"
	"github.com/phos-gpu/phos/daemon/gpu/fatbin"
	"github.com/phos-gpu/phos/hijack/abi"
)

// Module is code loaded by the driver.
type Module struct {
	context *Context
	native  cudadrv.Module
	image   gpu.Image
	globals map[string]gpu.Range
	// allocates is set if the kernels call malloc.
	allocates bool
	closed    atomic.Bool

	mu        sync.Mutex
	functions map[string]*Function
	names     []string // of all kernels; nil until Functions is called
}

// LoadModule loads machine code if there is any for this device, else PTX. The driver places the
// variables.
func (c *Context) LoadModule(image gpu.Image, options gpu.LoadOptions) (gpu.Module, error) {
	if err := c.usable("load module"); err != nil {
		return nil, err
	}
	if name := codeinfo.Managed(image); name != "" {
		return nil, &gpu.LoadError{
			Log: fmt.Sprintf("managed variable %s: a real GPU cannot share it with the program's process", name),
			Err: abi.NotSupported,
		}
	}
	if options.HeapBytes != 0 {
		if err := c.driver.CtxSetLimit(c.native, cudadrv.LimitMallocHeapSize, options.HeapBytes); err != nil {
			c.backend.options.Logger.Warn("cannot set heap size of kernels", "bytes", options.HeapBytes, "error", err)
		}
	}
	m := &Module{context: c, image: image, functions: map[string]*Function{}, globals: map[string]gpu.Range{}}
	if err := m.load(); err != nil {
		return nil, err
	}
	if err := m.findGlobals(); err != nil {
		return nil, errors.Join(err, m.Close())
	}
	m.allocates = codeinfo.Allocates(image)
	if codeinfo.Mentions(image, "vprintf") {
		c.canPrint.Store(true)
	}
	return m, nil
}

// load gives the code to the driver.
func (m *Module) load() (err error) {
	d, ctx := m.context.driver, m.context.native
	var log string
	switch {
	case len(m.image.Whole) > 0:
		m.native, log, err = d.ModuleLoad(ctx, m.image.Whole)
		if errors.Is(err, abi.NoBinaryForGPU) && len(m.image.PTX) > 1 {
			m.image.Whole, m.image.Cubin = nil, nil // the linked code lacks PTX; load its parts
			return m.load()
		}
	case len(m.image.Cubin) > 0:
		m.native, log, err = d.ModuleLoad(ctx, m.image.Cubin)
	case len(m.image.PTX) == 1:
		m.native, log, err = d.ModuleLoad(ctx, append([]byte(m.image.PTX[0]), 0))
	case len(m.image.PTX) > 1:
		m.native, log, err = d.ModuleLink(ctx, m.image.PTX)
	default:
		return &gpu.LoadError{Log: "the image holds no code", Err: abi.InvalidImage}
	}
	if err == nil {
		return nil
	}
	if fault := m.context.driverErr("load module", err); gpu.Code(err).Sticky() {
		return fault
	}
	return &gpu.LoadError{Log: m.loadLog(log, gpu.Code(err)), Err: loadCode(gpu.Code(err), log)}
}

// loadCode adds gpu.ErrUndefined to errors of code that may load when linked with more code.
func loadCode(code abi.Result, log string) error {
	for _, phrase := range []string{"Unresolved extern", "Undefined reference", "not defined", "Unresolved symbol"} {
		if strings.Contains(log, phrase) {
			return fmt.Errorf("%w: %w", code, gpu.ErrUndefined)
		}
	}
	return code
}

// loadLog returns the compiler's log, or an explanation if it is empty.
func (m *Module) loadLog(log string, code abi.Result) string {
	if log != "" {
		return strings.TrimRight(log, "\n")
	}
	info := m.context.backend.infos[m.context.device.ordinal]
	cc := fmt.Sprintf("%d.%d", info.Attributes[abi.AttrComputeCapabilityMajor],
		info.Attributes[abi.AttrComputeCapabilityMinor])
	if code == abi.NoBinaryForGPU {
		what := "the code has no PTX"
		if len(m.image.Cubin) > 0 {
			what = fmt.Sprintf("the code is for sm_%d", fatbin.CubinSM(m.image.Cubin))
		}
		if m.image.Holds != "" {
			what += " (it holds " + m.image.Holds + ")"
		}
		return fmt.Sprintf("%s: %s does not run on GPU %d, %s, of compute capability %s",
			code, what, m.context.device.ordinal, info.Name, cc)
	}
	return fmt.Sprintf("%s: the driver gives no details (GPU %d, %s, compute capability %s)",
		code, m.context.device.ordinal, info.Name, cc)
}

// findGlobals finds where the driver placed the variables.
func (m *Module) findGlobals() error {
	d := m.context.device
	for _, name := range codeinfo.Variables(m.image) {
		address, size, err := m.context.driver.ModuleGetGlobal(m.context.native, m.native, name)
		if gpu.Code(err) == abi.NotFound || err == nil && size == 0 {
			continue // the compiler removed it
		}
		if err != nil {
			return m.context.driverErr("find variable "+name, err)
		}
		r := gpu.Range{Address: address, Bytes: size}
		m.globals[name] = r
		d.mu.Lock()
		d.table.add(piece{Range: r, owner: m.context})
		d.mu.Unlock()
	}
	return nil
}

// Functions lists the kernels.
func (m *Module) Functions() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.names == nil {
		m.names = m.listFunctions()
	}
	return m.names
}

// listFunctions returns the kernels' names, from the driver or from the code.
func (m *Module) listFunctions() []string {
	d, ctx := m.context.driver, m.context.native
	functions, err := d.ModuleFunctions(ctx, m.native)
	names := []string{}
	for _, f := range functions {
		name, failed := d.FunctionName(ctx, f)
		if failed != nil {
			err = failed
			break
		}
		names = append(names, name)
	}
	if err != nil { // an old driver cannot list them
		names = codeinfo.Kernels(m.image)
	}
	slices.Sort(names)
	return names
}

// Function finds a kernel.
func (m *Module) Function(name string) (gpu.Function, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if f := m.functions[name]; f != nil {
		return f, nil
	}
	c := m.context
	native, err := c.driver.ModuleGetFunction(c.native, m.native, name)
	if err != nil {
		if gpu.Code(err) == abi.NotFound {
			return nil, gpu.Errorf("find function", abi.NotFound, "no kernel %q", name)
		}
		return nil, c.driverErr("find function "+name, err)
	}
	f, err := newFunction(m, native, name)
	if err != nil {
		return nil, err
	}
	m.functions[name] = f
	return f, nil
}

// Globals lists the variables.
func (m *Module) Globals() map[string]gpu.Range { return m.globals }

// Close unloads the code. Queued launches still run.
func (m *Module) Close() error {
	if m.closed.Swap(true) {
		return &gpu.Error{Op: "unload module", Code: abi.InvalidHandle, Detail: "the module is unloaded"}
	}
	c := m.context
	c.device.mu.Lock()
	for _, r := range m.globals {
		c.device.table.remove(r.Address)
	}
	c.device.mu.Unlock()
	if c.stopping() {
		return nil // the driver unloads it with the context
	}
	return c.driverErr("unload module", c.driver.ModuleUnload(c.native, m.native))
}

// Function is a kernel of a module.
type Function struct {
	module *Module
	native cudadrv.Function
	// maxThreads and maxDynamic are limits for launches, copied from info by limit.
	maxThreads, maxDynamic atomic.Uint32

	mu   sync.Mutex
	info gpu.FunctionInfo // only its attributes can change
}

// newFunction reads what the driver knows of a kernel.
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
		// Older drivers do not know all attributes.
		if code := gpu.Code(err); err != nil && code != abi.InvalidValue && code != abi.NotSupported {
			return nil, c.driverErr("query attributes of "+name, err)
		}
		f.info.Attributes[i] = value
	}
	f.cacheLimits()
	return f, nil
}

// cacheLimits copies the limits for launches from the attributes. mu is held, or f is new.
func (f *Function) cacheLimits() {
	f.maxThreads.Store(uint32(f.info.Attributes[abi.FuncMaxThreadsPerBlock]))
	f.maxDynamic.Store(uint32(f.info.Attributes[abi.FuncMaxDynamicSharedBytes]))
}

// params returns the layout of the parameter block, from the driver or, for older drivers, from the
// code.
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
			return nil, c.driverErr("query parameters of "+f.info.Name, err)
		}
	}
}

// Info returns what programs may query about the kernel.
func (f *Function) Info() gpu.FunctionInfo {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.info
}

// SetAttribute sets a writable attribute.
func (f *Function) SetAttribute(attribute, value int32) error {
	c := f.module.context
	op := fmt.Sprintf("set attribute %d of %s to %d", attribute, f.info.Name, value)
	f.mu.Lock()
	defer f.mu.Unlock()
	if attribute < 0 || int(attribute) >= len(f.info.Attributes) {
		return &gpu.Error{Op: op, Code: abi.InvalidValue}
	}
	if a := abi.FunctionAttribute(attribute); a == abi.FuncMaxDynamicSharedBytes {
		// The driver checks the sum of static and dynamic memory only at the launch.
		limit := c.backend.infos[c.device.ordinal].Attributes[abi.AttrMaxSharedMemoryPerBlockOptin] - f.info.Attributes[abi.FuncSharedBytes]
		if value < 0 || value > limit {
			return gpu.Errorf(op, abi.InvalidValue, "the maximum is %d", limit)
		}
	} else if !writable(a) {
		return &gpu.Error{Op: op, Code: abi.InvalidValue, Detail: "the attribute is read-only"}
	}
	if err := c.driver.FuncSetAttribute(c.native, f.native, attribute, value); err != nil {
		return c.driverErr(op, err)
	}
	f.info.Attributes[attribute] = value
	f.cacheLimits()
	return nil
}

// writable reports whether the driver allows setting an attribute.
func writable(a abi.FunctionAttribute) bool {
	return a > abi.FuncMaxDynamicSharedBytes && a != abi.FuncClusterSizeMustBeSet
}

// ActiveBlocks returns how many blocks of this shape fit on one multiprocessor; 0 if none fits.
func (f *Function) ActiveBlocks(threadsPerBlock int, dynamicSharedBytes uint64) (int, error) {
	if threadsPerBlock <= 0 {
		return 0, gpu.Errorf("occupancy", abi.InvalidValue, "%d threads per block", threadsPerBlock)
	}
	if uint64(threadsPerBlock) > uint64(f.maxThreads.Load()) || dynamicSharedBytes > uint64(f.maxDynamic.Load()) {
		return 0, nil
	}
	c := f.module.context
	n, err := c.driver.OccupancyMaxActiveBlocksPerMultiprocessor(c.native, f.native, int32(threadsPerBlock),
		dynamicSharedBytes)
	return int(n), c.driverErr("occupancy", err)
}
