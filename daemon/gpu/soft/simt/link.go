package simt

import (
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/phos-gpu/phos/daemon/gpu"
	"github.com/phos-gpu/phos/daemon/gpu/soft/simt/code"
	"github.com/phos-gpu/phos/daemon/gpu/soft/simt/space"
	"github.com/phos-gpu/phos/hijack/abi"
	"github.com/phos-gpu/phos/internal/ptx"
)

// Placer allocates device memory for a variable and returns its address. The memory must be mapped
// and zeroed.
type Placer = func(name string, bytes, align uint64) (uint64, error)

// linker collects the definitions of the modules.
type linker struct {
	modules []*ptx.Module
	memory  *Memory
	place   Placer
	linked  code.Linked
	program *Program
	// variables are the visible definitions in global and constant memory.
	variables  map[string]*ptx.Var
	shared     map[string]*ptx.Var
	constBytes uint64
}

// Link links modules into a program. It allocates and initializes their variables through place,
// and lowers every function. It returns an error that names the first instruction that is not
// supported.
func Link(
	modules []*ptx.Module,
	place func(name string, bytes, align uint64) (uint64, error),
	memory *Memory,
) (*Program, error) {
	l := newLinker(modules, place, memory)
	return l.run(l.collect, l.checkFunctions, l.chooseVariables, l.placeVariables, l.placeHeap, l.initialise,
		l.lower, l.placeWorkspaces)
}

// LinkFilled is Link for variables whose memory already has its content, or gets it on first
// access. It writes no initial values.
func LinkFilled(
	modules []*ptx.Module,
	place func(name string, bytes, align uint64) (uint64, error),
	memory *Memory,
) (*Program, error) {
	l := newLinker(modules, place, memory)
	return l.run(l.collect, l.checkFunctions, l.chooseVariables, l.placeVariables, l.placeHeap, l.lower,
		l.placeWorkspaces)
}

func newLinker(modules []*ptx.Module, place Placer, memory *Memory) *linker {
	program := &Program{kernels: map[string]*Kernel{}, globals: map[string]gpu.Range{}, heapBytes: HeapBytes}
	return &linker{
		modules: modules, memory: memory, place: place,
		linked: code.Linked{
			Functions: map[string]*ptx.Func{}, Addresses: map[*ptx.Var]uint64{},
			FunctionAddresses: map[*ptx.Func]uint64{}, AtAddress: map[uint64]*ptx.Func{},
			Modules: map[*ptx.Func]*ptx.Module{}, Shared: map[*ptx.Var]*ptx.Var{}, Lock: &program.mu,
		},
		program:   program,
		variables: map[string]*ptx.Var{}, shared: map[string]*ptx.Var{},
	}
}

// run runs the steps in order and returns the program.
func (l *linker) run(steps ...func() error) (*Program, error) {
	for _, step := range steps {
		if err := step(); err != nil {
			return nil, err
		}
	}
	return l.program, nil
}

// collect records definitions by name and the functions whose address is taken.
func (l *linker) collect() error {
	for _, m := range l.modules {
		for _, f := range m.Funcs {
			if !f.Defined() {
				continue
			}
			if known := l.linked.Functions[f.Name]; known != nil {
				if known.Linkage != ptx.Weak && f.Linkage != ptx.Weak {
					return fmt.Errorf("function '%s' is defined twice: %w", f.Name, abi.InvalidPTX)
				}
				if f.Linkage == ptx.Weak {
					continue
				}
			}
			l.linked.Functions[f.Name] = f
			l.linked.Modules[f] = m
		}
	}
	for _, m := range l.modules {
		for _, f := range m.Funcs {
			l.collectAddressTaken(f)
		}
		for _, v := range m.Globals {
			for _, r := range v.Relocs {
				l.assignAddress(r.Func)
			}
		}
	}
	// Bodies that are not read yet may take addresses. All get theirs now, so that an address does not
	// depend on the order in which kernels are looked up: programs keep them in memory.
	for _, m := range l.modules {
		for _, f := range m.Funcs {
			if m.Outlined() && !f.Entry {
				l.assignAddress(f)
			}
		}
	}
	return nil
}

// collectAddressTaken assigns addresses to the functions whose address a body takes.
func (l *linker) collectAddressTaken(f *ptx.Func) {
	for i := range f.Insts {
		for _, o := range f.Insts[i].Src {
			l.assignAddress(o.Func)
		}
	}
}

// assignAddress gives a function an address. It can be called, but not loaded from.
func (l *linker) assignAddress(f *ptx.Func) {
	if f == nil {
		return
	}
	f = l.linked.Functions[f.Name]
	if f == nil || l.linked.FunctionAddresses[f] != 0 {
		return
	}
	address := space.CodeBase + 16*uint64(len(l.linked.FunctionAddresses)+1)
	l.linked.FunctionAddresses[f], l.linked.AtAddress[address] = address, f
}

// checkFunctions returns an error for a function whose declarations differ from its definition.
// Modules are compiled separately, but callers and callees are lowered by one signature.
func (l *linker) checkFunctions() error {
	for _, m := range l.modules {
		for _, f := range m.Funcs {
			definition := l.linked.Functions[f.Name]
			if definition == nil || definition == f {
				continue
			}
			if difference := differs(f, definition); difference != "" {
				return fmt.Errorf("function '%s': %s: %w", f.Name, difference, abi.InvalidPTX)
			}
		}
	}
	return nil
}

// differs says how a declaration differs from a definition for callers; it is empty if it does not.
func differs(declared, defined *ptx.Func) string {
	same := func(v, w *ptx.Var) bool { return v.Bytes == w.Bytes }
	switch {
	case declared.Entry != defined.Entry:
		return "a declaration says .func and the definition .entry, or the other way round"
	case len(declared.Returns) != len(defined.Returns):
		return fmt.Sprintf("declared with %d return values, defined with %d", len(declared.Returns), len(defined.Returns))
	case len(declared.Params) != len(defined.Params):
		return fmt.Sprintf("declared with %d parameters, defined with %d", len(declared.Params), len(defined.Params))
	case !slices.EqualFunc(declared.Returns, defined.Returns, same):
		return "the sizes of its return values differ between declaration and definition"
	case !slices.EqualFunc(declared.Params, defined.Params, same):
		return "the sizes of its parameters differ between declaration and definition"
	}
	return ""
}

// chooseVariables chooses the definition of each visible variable: the only strong one, else the
// first weak one, else the largest common one.
func (l *linker) chooseVariables() error {
	strong := func(v *ptx.Var) bool { return v.Linkage == ptx.Visible }
	for _, m := range l.modules {
		for _, v := range m.Globals {
			if v.Space == ptx.Shared || v.Linkage == ptx.Extern || v.Linkage == ptx.Internal {
				continue
			}
			known := l.variables[v.Name]
			switch {
			case known == nil, strong(v) && !strong(known):
				l.variables[v.Name] = v
			case strong(v) && strong(known):
				return fmt.Errorf("variable '%s' is defined twice: %w", v.Name, abi.InvalidPTX)
			case v.Linkage == ptx.Common && known.Linkage == ptx.Common && v.Bytes > known.Bytes:
				l.variables[v.Name] = v
			}
		}
	}
	return nil
}

// checkVariable returns an error for a declaration, or a definition that was not chosen, that
// differs from the definition. Declared arrays may have no size, and common definitions different
// ones.
func checkVariable(declared, defined *ptx.Var) error {
	common := declared.Linkage == ptx.Common && defined.Linkage == ptx.Common
	switch {
	case declared.Space != defined.Space:
		return fmt.Errorf("variable '%s' is declared in one state space and defined in another: %w",
			declared.Name, abi.InvalidPTX)
	case declared.Managed != defined.Managed:
		return fmt.Errorf("variable '%s' is managed in one text and not in another: %w", declared.Name, abi.InvalidPTX)
	case declared.Bytes != 0 && declared.Bytes != defined.Bytes && !common:
		return fmt.Errorf("variable '%s' is declared with %d bytes and defined with %d: %w",
			declared.Name, declared.Bytes, defined.Bytes, abi.InvalidPTX)
	}
	return nil
}

// placeVariables assigns an address to every definition, then to every declaration that of its
// definition.
func (l *linker) placeVariables() error {
	var declared []*ptx.Var
	for _, m := range l.modules {
		for _, v := range m.Globals {
			switch {
			case v.Space == ptx.Shared:
				if v.Linkage != ptx.Extern && v.Linkage != ptx.Internal && v.Bytes > 0 && l.shared[v.Name] == nil {
					l.shared[v.Name] = v
				}
			case v.Linkage != ptx.Internal && l.variables[v.Name] != v:
				declared = append(declared, v)
			default:
				if err := l.placeVariable(v); err != nil {
					return err
				}
			}
		}
	}
	for _, v := range declared {
		definition := l.variables[v.Name]
		if definition == nil {
			return fmt.Errorf("variable '%s' is %w: %w", v.Name, gpu.ErrUndefined, abi.InvalidPTX)
		}
		if err := checkVariable(v, definition); err != nil {
			return err
		}
		l.linked.Addresses[v] = l.linked.Addresses[definition]
	}
	for _, m := range l.modules {
		for _, v := range m.Globals {
			if v.Space == ptx.Shared && v.Linkage != ptx.Internal && l.shared[v.Name] != nil {
				l.linked.Shared[v] = l.shared[v.Name]
			}
		}
	}
	return nil
}

// placeVariable allocates and records a variable. By name, an exported one wins over internal ones.
func (l *linker) placeVariable(v *ptx.Var) error {
	address, err := l.place(v.Name, max(v.Bytes, 1), max(v.Align, 1))
	if err != nil {
		return fmt.Errorf("place variable '%s' of %d bytes: %w", v.Name, v.Bytes, err)
	}
	l.linked.Addresses[v] = address
	if _, taken := l.program.globals[v.Name]; !taken || v.Linkage != ptx.Internal {
		l.program.globals[v.Name] = gpu.Range{Address: address, Bytes: v.Bytes}
	}
	if v.Space == ptx.Const {
		l.constBytes += v.Bytes
	}
	return nil
}

// placeHeap allocates the device heap if a kernel may call malloc.
func (l *linker) placeHeap() error {
	if !slices.ContainsFunc(l.modules, mayCallMalloc) {
		return nil
	}
	address, err := l.place(HeapName, HeapBytes, 16)
	if err != nil {
		return fmt.Errorf("place the device heap: %w", err)
	}
	l.program.heap, l.linked.Heap = address, true
	return nil
}

// mayCallMalloc reports whether a kernel of the module may call malloc. Compilers declare malloc
// where it is called, so a declaration is sufficient where bodies are not parsed yet.
func mayCallMalloc(m *ptx.Module) bool {
	if m.Outlined() {
		return m.Declares("malloc")
	}
	for _, f := range m.Funcs {
		for i := range f.Insts {
			if call := f.Insts[i].Call; call != nil && call.Func != nil && call.Func.Name == "malloc" {
				return true
			}
		}
	}
	return false
}

// initialise writes the initial values of the definitions, with addresses resolved. Place has
// zeroed the other variables.
func (l *linker) initialise() error {
	for _, m := range l.modules {
		for _, v := range m.Globals {
			if v.Space == ptx.Shared || v.Init == nil && len(v.Relocs) == 0 ||
				v.Linkage != ptx.Internal && l.variables[v.Name] != v {
				continue
			}
			image := make([]byte, v.Bytes)
			copy(image, v.Init)
			for _, r := range v.Relocs {
				if err := l.relocate(v, r, image); err != nil {
					return err
				}
			}
			if _, err := l.memory.WriteAt(image, int64(l.linked.Addresses[v])); err != nil {
				return fmt.Errorf("initialise variable '%s': %w", v.Name, err)
			}
		}
	}
	return nil
}

// relocate writes an address into a variable's initial value.
func (l *linker) relocate(v *ptx.Var, r ptx.Relocation, image []byte) error {
	var address uint64
	resolved := true
	switch {
	case r.Func != nil:
		address = l.linked.FunctionAddresses[l.linked.Functions[r.Func.Name]]
		resolved = address != 0
	case r.Symbol != nil:
		address, resolved = l.linked.Addresses[r.Symbol]
	}
	if !resolved {
		return fmt.Errorf("initialise variable '%s': a name in its initial value is %w: %w", v.Name,
			gpu.ErrUndefined, abi.InvalidPTX)
	}
	if r.Offset+uint64(r.Bytes) > uint64(len(image)) {
		return fmt.Errorf("initialise variable '%s': an address outside of it: %w", v.Name, abi.InvalidPTX)
	}
	var raw [8]byte
	binary.LittleEndian.PutUint64(raw[:], address+uint64(r.Addend))
	copy(image[r.Offset:], raw[:r.Bytes])
	return nil
}

// lower lowers the kernels whose bodies are parsed. The others are lowered when they are looked up.
func (l *linker) lower() error {
	for _, m := range l.modules {
		for _, f := range m.Funcs {
			if !f.Entry || l.linked.Functions[f.Name] != f {
				continue
			}
			k := &Kernel{program: l.program}
			k.lower = func() error { return l.lowerKernel(k, f) }
			l.program.kernels[f.Name] = k
			l.program.names = append(l.program.names, f.Name)
			if m.Outlined() {
				continue
			}
			if _, err := l.program.Kernel(f.Name); err != nil {
				return err
			}
		}
	}
	slices.Sort(l.program.names)
	return nil
}

// lowerKernel sets the code and info of k from f. It completes outlined functions that f reaches.
func (l *linker) lowerKernel(k *Kernel, f *ptx.Func) error {
	complete := func(reached *ptx.Func) error {
		err := l.linked.Modules[reached].Complete(reached)
		l.collectAddressTaken(reached)
		return err
	}
	lowered, err := code.Lower(f, &l.linked, complete)
	if err != nil {
		return err
	}
	k.code = lowered
	k.info = l.kernelInfo(l.linked.Modules[f], f, lowered)
	return nil
}

// kernelInfo returns what programs can query about a kernel.
func (l *linker) kernelInfo(m *ptx.Module, f *ptx.Func, k *code.Kernel) gpu.FunctionInfo {
	info := gpu.FunctionInfo{Name: f.Name, ParamBytes: uint32(f.ParamBytes)}
	for _, p := range f.Params {
		info.Params = append(info.Params, gpu.Param{Offset: uint32(p.Offset), Bytes: uint32(p.Bytes)})
	}
	threads := int32(maxBlockThreads)
	for _, limit := range [][3]uint32{f.MaxThreads, f.RequiredThreads} {
		if limit[0] != 0 {
			threads = int32(min(limit[0]*max(limit[1], 1)*max(limit[2], 1), maxBlockThreads))
		}
	}
	target := int32(0)
	_, _ = fmt.Sscanf(m.Target, "sm_%d", &target) // an unknown target reads as 0
	info.Attributes[abi.FuncMaxThreadsPerBlock] = threads
	info.Attributes[abi.FuncSharedBytes] = int32(k.StaticShared)
	info.Attributes[abi.FuncConstBytes] = int32(l.constBytes)
	info.Attributes[abi.FuncLocalBytes] = int32(k.LocalBytes)
	info.Attributes[abi.FuncNumRegs] = k.Registers
	// The target of the virtual architecture, despite the attribute's name: cub chooses launch shapes
	// by it.
	info.Attributes[abi.FuncPTXVersion] = target
	info.Attributes[abi.FuncBinaryVersion] = target
	info.Attributes[abi.FuncMaxDynamicSharedBytes] = 48 << 10
	info.Attributes[abi.FuncPreferredSharedCarveout] = -1
	return info
}

// Kernel is one entry point of a Program.
type Kernel struct {
	code    *code.Kernel
	program *Program
	info    gpu.FunctionInfo
	// lower lowers the kernel. It is nil once the kernel is lowered or has failed.
	lower  func() error
	refuse error
}

// Info returns what programs can query about a kernel.
func (k *Kernel) Info() gpu.FunctionInfo { return k.info }
