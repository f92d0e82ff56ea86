package soft

import (
	"errors"
	"fmt"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/phos-gpu/phos/daemon/gpu"
	"github.com/phos-gpu/phos/daemon/gpu/codeinfo"
	"github.com/phos-gpu/phos/daemon/gpu/fatbin"
	"github.com/phos-gpu/phos/daemon/gpu/soft/blank"
	"github.com/phos-gpu/phos/daemon/gpu/soft/simt"
	"github.com/phos-gpu/phos/hijack/abi"
	"github.com/phos-gpu/phos/internal/ptx"
)

// newestPTX is the newest supported PTX version, that of CUDA 13.0.
var newestPTX = ptx.Version{Major: 9, Minor: 0}

// Module is linked PTX, or machine code of a blank device.
type Module struct {
	context *Context
	program *simt.Program
	texts   []*ptx.Module
	// blank has the kernels of machine code, which do nothing; nil for PTX.
	blank  map[string]*codeinfo.Kernel
	closed atomic.Bool

	mu        sync.Mutex
	functions map[string]*Function // by name, created on first lookup
}

// outlineBytes is the size from which texts are treated as a library. Kernels of a library are
// parsed when they are looked up, and functions that are called by address when they are first
// called, so that loading costs only what is used. Shorter texts are parsed at once, and errors in
// them are found at load.
const outlineBytes = 256 << 10

// LoadModule parses and links PTX texts; blank devices take machine code too. It returns a
// *gpu.LoadError for errors in the code.
func (c *Context) LoadModule(image gpu.Image, options gpu.LoadOptions) (loaded gpu.Module, err error) {
	if err := c.checkUsable("load module"); err != nil {
		return nil, err
	}
	defer c.contain(&err)
	m := &Module{context: c, functions: map[string]*Function{}}
	switch {
	case c.backend.spec.Blank && c.runs(image.Cubin):
		err = m.readBlank(image.Cubin)
	case len(image.PTX) == 0:
		err = cubinError(image, c.backend.spec.CC, c.backend.spec.Blank)
	default:
		m.texts, err = c.parse(image)
	}
	if err != nil {
		return nil, err
	}
	link := simt.Link
	if options.Filled {
		link = simt.LinkFilled
	}
	if m.program, err = link(m.texts, placer(m.texts, options), c.device.space); err != nil {
		return nil, loadError(err)
	}
	m.program.LimitHeap(heapBytes(options))
	return m, nil
}

// runs reports whether a device of the context's capability executes this machine code.
func (c *Context) runs(cubin []byte) bool {
	sm, cc := fatbin.CubinSM(cubin), c.backend.spec.CC
	return sm != 0 && sm/10 == cc/10 && sm <= cc
}

// readBlank makes kernels that do nothing of machine code.
func (m *Module) readBlank(cubin []byte) error {
	read, err := blank.Read(cubin, m.context.backend.spec.CC)
	if err != nil {
		return &gpu.LoadError{Log: err.Error(), Err: fmt.Errorf("%w: %w", abi.InvalidImage, err)}
	}
	m.texts, m.blank = []*ptx.Module{read.PTX}, read.Kernels
	return nil
}

// contain turns a panic of the linker into a *gpu.LoadError. Code comes from programs, and whatever
// a program hands in gets an answer.
func (c *Context) contain(err *error) {
	failure := recover()
	if failure == nil {
		return
	}
	c.backend.logger.Error("panic while code was loaded", "panic", failure, "stack", string(debug.Stack()))
	*err = &gpu.LoadError{
		Log: fmt.Sprintf("internal error of the software GPU: %v", failure), Err: abi.InvalidPTX,
	}
}

// placer returns a function that allocates memory for each variable, device or managed.
func placer(texts []*ptx.Module, options gpu.LoadOptions) simt.Placer {
	managed := map[string]bool{}
	for _, text := range texts {
		for _, v := range text.Globals {
			managed[v.Name] = managed[v.Name] || v.Managed
		}
	}
	return func(name string, bytes, align uint64) (uint64, error) {
		switch {
		case managed[name] && options.PlaceManaged != nil:
			return options.PlaceManaged(name, bytes)
		case managed[name]:
			return 0, fmt.Errorf("no memory for managed variable %s: %w", name, abi.NotSupported)
		case options.Place == nil:
			return 0, fmt.Errorf("no memory for variable %s: %w", name, abi.OutOfMemory)
		case name == simt.HeapName:
			bytes = heapBytes(options)
		}
		return options.Place(name, bytes, align)
	}
}

// heapBytes returns the size of the device heap.
func heapBytes(options gpu.LoadOptions) uint64 {
	if options.HeapBytes == 0 {
		return simt.HeapBytes
	}
	const minBytes, grain = 4096, 16
	return (max(options.HeapBytes, minBytes) + grain - 1) / grain * grain
}

// cubinError explains why an image without usable PTX cannot run.
func cubinError(image gpu.Image, cc int, blank bool) error {
	if len(image.Cubin) == 0 {
		return &gpu.LoadError{Log: "the image holds no code", Err: abi.InvalidImage}
	}
	what := fmt.Sprintf("is machine code for sm_%d without PTX", fatbin.CubinSM(image.Cubin))
	if strings.Contains(image.Holds, "PTX") {
		what = fmt.Sprintf("has no PTX for compute capability %d.%d or lower, only %s,", cc/10, cc%10, image.Holds)
	}
	if blank {
		return &gpu.LoadError{
			Log: fmt.Sprintf("this code is for sm_%d, and the blank GPU has compute capability %d.%d",
				fatbin.CubinSM(image.Cubin), cc/10, cc%10),
			Err: abi.NoBinaryForGPU,
		}
	}
	return &gpu.LoadError{
		Log: fmt.Sprintf("this code %s and needs a real GPU: the software GPU (compute capability %d.%d)"+
			" executes PTX only; compile with PTX (nvcc -gencode arch=compute_%d,code=compute_%d), or run it with --gpus cuda",
			what, cc/10, cc%10, cc, cc),
		Err: abi.NoBinaryForGPU,
	}
}

// loadError makes a linker's error a *gpu.LoadError for the JIT log. An error without a code is an
// error in the PTX.
func loadError(err error) error {
	var known *gpu.LoadError
	if errors.As(err, &known) {
		return err
	}
	log := err.Error()
	if gpu.Code(err) == abi.Unknown {
		err = fmt.Errorf("%w: %w", err, abi.InvalidPTX)
	}
	return &gpu.LoadError{Log: log, Err: err}
}

// parse parses texts and checks that the device supports their versions and targets.
func (c *Context) parse(image gpu.Image) ([]*ptx.Module, error) {
	texts := image.PTX
	modules := make([]*ptx.Module, len(texts))
	parse := parser(texts)
	for i, text := range texts {
		module, err := parse(text)
		if newer, version := tooNew(module, text); newer {
			return nil, &gpu.LoadError{
				Err: abi.UnsupportedPTXVersion,
				Log: fmt.Sprintf(
					"PTX version %s is newer than %d.%d, the newest that is supported",
					version,
					newestPTX.Major,
					newestPTX.Minor,
				),
			}
		}
		if err != nil {
			log := err.Error()
			if len(texts) > 1 {
				log = fmt.Sprintf("text %d of %d: %s", i+1, len(texts), log)
			}
			return nil, &gpu.LoadError{Log: log, Err: fmt.Errorf("%w: %w", abi.InvalidPTX, err)}
		}
		if sm := targetSM(module.Target); sm > c.backend.spec.CC && len(image.Cubin) == 0 {
			return nil, &gpu.LoadError{
				Err: abi.NoBinaryForGPU,
				Log: fmt.Sprintf(
					"code for %s does not run on compute capability %d.%d",
					module.Target,
					c.backend.spec.CC/10,
					c.backend.spec.CC%10,
				),
			}
		}
		modules[i] = module
	}
	return modules, nil
}

// parser returns how to parse the texts of a program: of a library only the outlines.
func parser(texts []string) func(string) (*ptx.Module, error) {
	bytes := 0
	for _, text := range texts {
		bytes += len(text)
	}
	if bytes >= outlineBytes {
		return ptx.Outline
	}
	return ptx.Parse
}

// tooNew reports whether a text's PTX version is too new. The text may have failed to parse for
// that reason.
func tooNew(module *ptx.Module, text string) (newer bool, version string) {
	var v ptx.Version
	if module != nil {
		v = module.Version
	} else if _, rest, found := strings.Cut(text, ".version"); found {
		_, _ = fmt.Sscanf(rest[:min(len(rest), 32)], "%d.%d", &v.Major, &v.Minor)
	}
	newer = v.Major > newestPTX.Major || v.Major == newestPTX.Major && v.Minor > newestPTX.Minor
	return newer, fmt.Sprintf("%d.%d", v.Major, v.Minor)
}

// targetSM parses "sm_90" or "sm_90a". It returns 0 if there is no number.
func targetSM(target string) int {
	sm, _ := strconv.Atoi(strings.TrimRight(strings.TrimPrefix(target, "sm_"), "af"))
	return sm
}

// Functions lists the kernels.
func (m *Module) Functions() []string { return m.program.Kernels() }

// Function looks up a kernel. It returns a *gpu.LoadError for errors in its code.
func (m *Module) Function(name string) (found gpu.Function, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	defer m.context.contain(&err)
	if f := m.functions[name]; f != nil {
		return f, nil
	}
	kernel, err := m.program.Kernel(name)
	switch {
	case errors.Is(err, abi.NotFound):
		return nil, err
	case err != nil:
		return nil, loadError(fmt.Errorf("kernel %s: %w", name, err))
	}
	f := newFunction(m, kernel, m.texts)
	m.functions[name] = f
	return f, nil
}

// Globals lists the variables.
func (m *Module) Globals() map[string]gpu.Range { return m.program.Globals() }

// Close makes the module's functions unusable. Queued launches still run.
func (m *Module) Close() error {
	if m.closed.Swap(true) {
		return &gpu.Error{Op: "unload module", Code: abi.InvalidHandle, Detail: "the module is unloaded"}
	}
	return nil
}
