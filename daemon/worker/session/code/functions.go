package code

import (
	"encoding/binary"
	"errors"
	"sort"

	"github.com/phos-gpu/phos/daemon/gpu"
	"github.com/phos-gpu/phos/daemon/worker/session/core"
	"github.com/phos-gpu/phos/daemon/worker/session/object"
	"github.com/phos-gpu/phos/daemon/worker/session/saved"
	"github.com/phos-gpu/phos/hijack/abi"
	"github.com/phos-gpu/phos/hijack/wire"
)

// Function is a kernel of a module.
type Function struct {
	object *object.Object
	module *Module
	code   gpu.Function
	info   gpu.FunctionInfo
}

// find returns a function of the module, entering it into the object graph the first time.
func (m *Module) find(s *Code, name string, maker object.Maker) (*Function, error) {
	if f := m.functions[name]; f != nil {
		return f, nil
	}
	code, err := m.code.Function(name)
	if err != nil {
		if refused := (*gpu.LoadError)(nil); errors.As(err, &refused) {
			s.Log.Info("code refused", "error", err)
		}
		return nil, err
	}
	f := &Function{module: m, code: code, info: code.Info()}
	f.object = s.Objects.Add(&object.Object{
		ID: uint64(s.Objects.NextHandle(abi.KindFunction)), Kind: abi.KindFunction,
		Maker: maker, Parent: m.object, State: f,
	})
	m.functions[name] = f
	return f, nil
}

// Function returns the function of a handle, as it is in a context: a kernel is another function in
// each.
func (s *Code) Function(c *core.Context, h abi.Handle) (*Function, error) {
	o := s.Objects.Get(uint64(h))
	if o == nil {
		return nil, &gpu.Error{Op: "find function", Code: abi.InvalidHandle, Detail: h.String() + " does not exist"}
	}
	switch state := o.State.(type) {
	case *Function:
		return state, nil
	case *kernel:
		return s.kernelIn(state, c)
	}
	return nil, &gpu.Error{Op: "find function", Code: abi.InvalidHandle, Detail: h.String() + " is no function"}
}

// functionOf returns the function of a handle for a call; kernels are those of the current context,
// or of any.
func (s *Code) functionOf(call *core.Call, h abi.Handle) (*Function, error) {
	c := s.Contexts[call.Context]
	if c == nil && h.Kind() == abi.KindKernel {
		if c = s.AnyContext(); c == nil {
			_, err := s.Current(call)
			return nil, err
		}
	}
	return s.Function(c, h)
}

func (s *Code) moduleGetFunction(call *core.Call, in *wire.ModuleGetFunction, out *wire.ModuleGetFunctionReply) error {
	m, err := s.module(in.Hmod)
	if err != nil {
		return err
	}
	f, err := m.find(s, in.Name, call.Maker())
	if err == nil {
		out.Hfunc = f.object.Handle()
	}
	return err
}

func (s *Code) moduleGetFunctionCount(
	_ *core.Call,
	in *wire.ModuleGetFunctionCount,
	out *wire.ModuleGetFunctionCountReply,
) error {
	m, err := s.module(in.Mod)
	if err == nil {
		out.Count = uint32(len(m.code.Functions()))
	}
	return err
}

func (s *Code) listFunctions(call *core.Call, in *wire.ListFunctions, out *wire.ListFunctionsReply) error {
	handles, err := s.functionsOf(call, abi.Handle(in.Owner), in.Capacity)
	if err != nil {
		return err
	}
	out.Count = uint64(len(handles))
	return s.PutHandles(call, in.Address, in.Capacity, handles)
}

// functionsOf returns handles of the functions of a module or the kernels of a library, no more
// than wanted.
func (s *Code) functionsOf(call *core.Call, owner abi.Handle, wanted uint64) ([]abi.Handle, error) {
	if owner.Kind() == abi.KindLibrary {
		return s.kernelsOf(call, owner, wanted)
	}
	m, err := s.module(owner)
	if err != nil {
		return nil, err
	}
	var handles []abi.Handle
	for _, name := range m.code.Functions() {
		if uint64(len(handles)) == wanted {
			break
		}
		f, err := m.find(s, name, call.Maker())
		if err != nil {
			return nil, err
		}
		handles = append(handles, f.object.Handle())
	}
	return handles, nil
}

func (s *Code) functionInfo(call *core.Call, in *wire.FunctionInfo, out *wire.FunctionInfoReply) error {
	f, err := s.functionOf(call, abi.Handle(in.Function))
	if err != nil {
		return err
	}
	data := encodeInfo(f.code.Info(), f.kernel())
	out.Size = uint64(len(data))
	return s.Put(call, in.Address, in.Capacity, data)
}

// kernel returns the handle of the kernel whose function this is in one context; 0 where the
// program has none.
func (f *Function) kernel() abi.Handle {
	if l := f.module.library; l != nil && l.kernels[f.info.Name] != nil {
		return l.kernels[f.info.Name].object.Handle()
	}
	return 0
}

// encodeInfo writes what the shim keeps of a function; module.api says how.
func encodeInfo(info gpu.FunctionInfo, kernel abi.Handle) []byte {
	params := info.Params
	sort.Slice(params, func(i, j int) bool { return params[i].Offset < params[j].Offset })
	le := binary.LittleEndian
	data := le.AppendUint32(nil, uint32(len(params)))
	data = le.AppendUint32(data, info.ParamBytes)
	for _, a := range info.Attributes {
		data = le.AppendUint32(data, uint32(a))
	}
	data = le.AppendUint32(data, uint32(len(info.Name)))
	data = le.AppendUint32(data, kernel.Index())
	for _, p := range params {
		data = le.AppendUint32(le.AppendUint32(data, p.Offset), p.Bytes)
	}
	return append(data, info.Name...)
}

func (s *Code) funcGetModule(_ *core.Call, in *wire.FuncGetModule, out *wire.FuncGetModuleReply) error {
	f, err := core.Find[*Function](s.Core, abi.KindFunction, in.Hfunc)
	if err == nil {
		out.Hmod = f.module.object.Handle()
	}
	return err
}

// settable are the attributes of functions that can be set.
var settable = []abi.FunctionAttribute{
	abi.FuncMaxDynamicSharedBytes, abi.FuncPreferredSharedCarveout, abi.FuncRequiredClusterWidth, abi.FuncRequiredClusterHeight,
	abi.FuncRequiredClusterDepth, abi.FuncNonPortableClusterSizeAllowed, abi.FuncClusterSchedulingPolicy,
}

// Save writes the function.
func (f *Function) Save(*core.Encoder) saved.State {
	out := &saved.Function{Name: f.info.Name}
	now := f.code.Info().Attributes
	for _, a := range settable {
		out.Attributes = append(out.Attributes, saved.Attribute{Number: a, Value: now[a]})
	}
	return out
}

func (s *Code) restoreFunction(r *core.Decoder, o *object.Object, in *saved.Function) (*Function, error) {
	m, err := core.ParentOf[*Module](o)
	if err != nil {
		return nil, err
	}
	if m.functions[in.Name] != nil {
		return nil, core.Damaged("its module has function %q twice", in.Name)
	}
	code, err := m.code.Function(in.Name)
	if err != nil {
		return nil, err
	}
	f := &Function{object: o, module: m, code: code, info: code.Info()}
	m.functions[in.Name] = f
	r.Finish = append(r.Finish, func() error { return f.restoreAttributes(in.Attributes) })
	return f, nil
}

// restoreAttributes gives the function the attributes that it had. Executables come before: they
// were checked against what the attributes were when they were made.
func (f *Function) restoreAttributes(attributes []saved.Attribute) error {
	now := f.code.Info().Attributes
	for _, a := range attributes {
		if a.Number < 0 || int(a.Number) >= len(now) {
			return core.Damaged("%s has no attribute %d", f.info.Name, a.Number)
		}
		if now[a.Number] == a.Value {
			continue
		}
		if err := f.code.SetAttribute(int32(a.Number), a.Value); err != nil {
			return err
		}
	}
	return nil
}

// FunctionName returns the name of a function or a kernel, nothing where the handle is of neither.
func (s *Code) FunctionName(h abi.Handle) string {
	if o := s.Objects.Get(uint64(h)); o != nil {
		switch state := o.State.(type) {
		case *Function:
			return state.info.Name
		case *kernel:
			return state.name
		}
	}
	return ""
}

// AllowShared raises the function's limit of shared memory to what an executable was made with.
func (f *Function) AllowShared(sharedBytes uint32) error {
	const limit = abi.FuncMaxDynamicSharedBytes
	if int64(f.code.Info().Attributes[limit]) >= int64(sharedBytes) {
		return nil
	}
	return f.code.SetAttribute(int32(limit), int32(sharedBytes))
}

// Present is a function as it is in a context, nil where it is not there.
func (s *Code) Present(c *core.Context, h abi.Handle) *Function {
	o := s.Objects.Get(uint64(h))
	if o == nil {
		return nil
	}
	switch state := o.State.(type) {
	case *Function:
		return state
	case *kernel:
		if m := state.library.modules[c]; m != nil {
			return m.functions[state.name]
		}
	}
	return nil
}
