package session

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"sort"

	"github.com/phos-gpu/phos/daemon/gpu"
	"github.com/phos-gpu/phos/daemon/gpu/fatbin"
	"github.com/phos-gpu/phos/daemon/worker/session/graph"
	"github.com/phos-gpu/phos/daemon/worker/session/heap"
	"github.com/phos-gpu/phos/daemon/worker/session/object"
	"github.com/phos-gpu/phos/daemon/worker/session/saved"
	"github.com/phos-gpu/phos/hijack/abi"
	"github.com/phos-gpu/phos/hijack/wire"
)

// module is code loaded into a context.
type module struct {
	object  *object.Object
	context *context
	code    gpu.Module
	// library is what the code is of, nil for a module of its own.
	library   *library
	functions map[string]*function
	// variables have memory, in the order in which the backend asked for it.
	variables []variable
	// placed are variables that the backend has found a place for; load is when the code came, where
	// it does that.
	placed []variable
	load   *load
	loads  *loads
	heap   *heap.Heap
	// targets are what its code is for, as package fatbin says it.
	targets []string
	// heapBytes is the heap of its kernels, as gpu.LoadOptions has it: loaded again, it must get the
	// same.
	heapBytes uint64
}

// variable is memory of a module.
type variable struct {
	name   string
	bounds gpu.Range
	// managed ones lie in the arena, where the program reads and writes them too; others in the
	// module's heap.
	managed bool
}

// function is a kernel of a module.
type function struct {
	object *object.Object
	module *module
	code   gpu.Function
	info   gpu.FunctionInfo
}

const logBytes = 800 // what a reply slot has room for

// close unloads the code. It needs no lock.
func (m *module) close(s *Session) {
	s.removePlaced(m)
	if err := m.loads.unloaded(m.load, m.code.Close); err != nil {
		s.log.Warn("unload module", "error", err)
	}
	m.free(s)
}

// free gives the variables' memory back.
func (m *module) free(s *Session) {
	for _, v := range m.variables {
		if v.managed {
			_ = s.freePinned(v.bounds)
		} else {
			_ = m.heap.Free(v.bounds.Address) // with the device gone, it is free already
		}
	}
}

// load brings code onto the context's device. It needs no lock, but the context must stay.
func (s *Session) load(c *context, images *fatbin.Images) (*module, error) {
	d := c.device
	image, err := images.Best(d.capability())
	if err != nil {
		return nil, err
	}
	m := &module{
		context:   c,
		functions: map[string]*function{},
		heap:      d.heap,
		loads:     s.loads[d.ordinal],
		heapBytes: c.heapBytes.Load(),
		targets:   images.Targets(),
	}
	place := func(name string, bytes, align uint64) (uint64, error) {
		// What needs more than the heap's own alignment gets a chunk, which has every alignment.
		if align > heap.Align {
			bytes = max(bytes, heap.SmallBytes+1)
		}
		r, err := m.heap.Allocate(max(bytes, 1))
		if err != nil {
			return 0, fmt.Errorf("place variable %s: %w", name, err)
		}
		m.variables = append(m.variables, variable{name, r, false})
		return r.Address, nil
	}
	placeManaged := func(name string, bytes uint64) (uint64, error) {
		r, err := s.showArena(bytes)
		if err != nil {
			return 0, fmt.Errorf("place managed variable %s: %w", name, err)
		}
		m.variables = append(m.variables, variable{name, r, true})
		return r.Address, nil
	}
	err = m.loads.loaded(m, func() (err error) {
		m.code, err = d.context.LoadModule(
			image,
			gpu.LoadOptions{Place: place, PlaceManaged: placeManaged, HeapBytes: m.heapBytes},
		)
		return err
	})
	if err != nil {
		m.free(s)
		return nil, err
	}
	s.addPlaced(m)
	return m, nil
}

// errorLog is the text for the program's JIT error log.
func errorLog(err error) []byte {
	text := err.Error()
	var refused *gpu.LoadError
	if errors.As(err, &refused) {
		text = refused.Log
	}
	return []byte(text[:min(len(text), logBytes)])
}

// moduleLoad loads code as a module of the current context or as a library, which belongs to none.
func (s *Session) moduleLoad(call *Call, in *wire.ModuleLoad, out *wire.ModuleLoadReply) error {
	c := s.contexts[call.Context]
	if c == nil && in.Library == 0 {
		_, err := s.current(call)
		return err
	}
	program, maker := s.program.Memory(call.Slot), call.maker()
	address, bytes, library := in.Address, in.Size, in.Library != 0
	letGo := func() {}
	if c != nil {
		letGo = c.hold(nil)
	}
	return call.Beside(func() error {
		defer letGo()
		content, err := readImage(program, address, bytes)
		if err != nil {
			return err
		}
		h, err := s.loadImage(c, content, maker, library)
		if err != nil {
			out.Log = errorLog(err)
			s.log.Info("code refused", "error", err)
			return err
		}
		out.Handle = uint64(h)
		return nil
	})
}

func (s *Session) loadImage(c *context, content []byte, maker object.Maker, asLibrary bool) (abi.Handle, error) {
	images, err := fatbin.Parse(content)
	if err != nil {
		return 0, err
	}
	var m *module
	if c != nil {
		if m, err = s.load(c, images); err != nil {
			return 0, err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if c != nil && c.ending {
		m.close(s)
		return 0, &gpu.Error{Op: "load module", Code: abi.ContextIsDestroyed}
	}
	maker.Image = s.objects.Images.Keep(content)
	if asLibrary {
		return s.addLibrary(maker, images, m), nil
	}
	m.know(maker.Image)
	s.addModule(m, maker)
	return m.object.Handle(), nil
}

func (s *Session) addModule(m *module, maker object.Maker, needs ...*object.Object) {
	m.object = s.objects.Add(&object.Object{
		ID: uint64(s.objects.NextHandle(abi.KindModule)), Kind: abi.KindModule,
		Maker: maker, Owner: m.context.object, Needs: needs, State: m,
	})
}

// hasManaged reports whether a variable of the module is managed.
func (m *module) hasManaged(name string) bool {
	return slices.ContainsFunc(m.variables, func(v variable) bool { return v.managed && v.name == name })
}

func (s *Session) module(h abi.Handle) (*module, error) { return find[*module](s, abi.KindModule, h) }

// moduleUnload unloads code when nothing runs any more.
func (s *Session) moduleUnload(_ *Call, in *wire.ModuleUnload) error {
	m, err := s.module(in.Hmod)
	if err != nil {
		return err
	}
	s.unload(m)
	return nil
}

// forsake makes executables that launch functions of a module look for them at their next launch,
// and not find them. What the functions work on goes with the module.
func (s *Session) forsake(m *module) {
	for _, c := range s.contexts {
		for o := range c.object.Owned(abi.KindGraphExec) {
			x := o.State.(*executable)
			x.stale = x.stale ||
				slices.ContainsFunc(x.ops, func(op graph.Op) bool { return s.launches(x.context, op, m) })
		}
	}
}

// launches reports whether an op launches a function of a module in a context.
func (s *Session) launches(c *context, op graph.Op, m *module) bool {
	k, is := op.(graph.Kernel)
	if !is {
		return false
	}
	o := s.objects.Get(uint64(k.Function))
	if o == nil {
		return false
	}
	switch state := o.State.(type) {
	case *function:
		return state.module == m
	case *kernel:
		return state.library.modules[c] == m
	}
	return false
}

func (s *Session) unload(m *module) {
	s.unloading(m)
	s.objects.Destroy(m.object, func(*object.Object) {})
	s.afterAll(m.context.device, func() { m.close(s) })
}

// find returns a function of the module, entering it into the object graph the first time.
func (m *module) find(s *Session, name string, maker object.Maker) (*function, error) {
	if f := m.functions[name]; f != nil {
		return f, nil
	}
	code, err := m.code.Function(name)
	if err != nil {
		if refused := (*gpu.LoadError)(nil); errors.As(err, &refused) {
			s.log.Info("code refused", "error", err)
		}
		return nil, err
	}
	f := &function{module: m, code: code, info: code.Info()}
	f.object = s.objects.Add(&object.Object{
		ID: uint64(s.objects.NextHandle(abi.KindFunction)), Kind: abi.KindFunction,
		Maker: maker, Owner: m.object, State: f,
	})
	m.functions[name] = f
	return f, nil
}

// function returns the function of a handle, as it is in a context: a kernel is another function in
// each.
func (s *Session) function(c *context, h abi.Handle) (*function, error) {
	o := s.objects.Get(uint64(h))
	if o == nil {
		return nil, &gpu.Error{Op: "find function", Code: abi.InvalidHandle, Detail: h.String() + " does not exist"}
	}
	switch state := o.State.(type) {
	case *function:
		return state, nil
	case *kernel:
		return s.kernelIn(state, c)
	}
	return nil, &gpu.Error{Op: "find function", Code: abi.InvalidHandle, Detail: h.String() + " is no function"}
}

// functionOf returns the function of a handle for a call; kernels are those of the current context,
// or of any.
func (s *Session) functionOf(call *Call, h abi.Handle) (*function, error) {
	c := s.contexts[call.Context]
	if c == nil && h.Kind() == abi.KindKernel {
		if c = s.anyContext(); c == nil {
			_, err := s.current(call)
			return nil, err
		}
	}
	return s.function(c, h)
}

func (s *Session) anyContext() *context {
	var first *context
	for _, c := range s.contexts {
		if first == nil || c.object.Sequence < first.object.Sequence {
			first = c
		}
	}
	return first
}

func (s *Session) moduleGetFunction(call *Call, in *wire.ModuleGetFunction, out *wire.ModuleGetFunctionReply) error {
	m, err := s.module(in.Hmod)
	if err != nil {
		return err
	}
	f, err := m.find(s, in.Name, call.maker())
	if err == nil {
		out.Hfunc = f.object.Handle()
	}
	return err
}

// global finds a variable of a module; abi.NotFound where there is none.
func (m *module) global(name string) (gpu.Range, error) {
	r, found := m.code.Globals()[name]
	if !found {
		return r, &gpu.Error{Op: "find variable " + name, Code: abi.NotFound}
	}
	return r, nil
}

func (s *Session) moduleGetGlobal(_ *Call, in *wire.ModuleGetGlobal, out *wire.ModuleGetGlobalReply) error {
	m, err := s.module(in.Hmod)
	if err != nil {
		return err
	}
	r, err := m.global(in.Name)
	out.Dptr, out.Bytes = r.Address, r.Bytes
	return err
}

func (s *Session) moduleGetFunctionCount(
	_ *Call,
	in *wire.ModuleGetFunctionCount,
	out *wire.ModuleGetFunctionCountReply,
) error {
	m, err := s.module(in.Mod)
	if err == nil {
		out.Count = uint32(len(m.code.Functions()))
	}
	return err
}

// put writes an answer that has no room in a reply slot to the program's memory; nothing of it
// where it does not fit.
func (s *Session) put(call *Call, address, capacity uint64, data []byte) error {
	if uint64(len(data)) > capacity || len(data) == 0 {
		return nil
	}
	program := s.program.Memory(call.Slot)
	return call.Beside(func() error {
		if _, err := program.WriteAt(data, int64(address)); err != nil {
			return &gpu.Error{Op: "write program memory", Code: abi.InvalidValue, Detail: err.Error()}
		}
		return nil
	})
}

// putHandles writes as many handles as there is room for.
func (s *Session) putHandles(call *Call, address, capacity uint64, handles []abi.Handle) error {
	handles = handles[:min(uint64(len(handles)), capacity)]
	data := make([]byte, 0, 8*len(handles))
	for _, h := range handles {
		data = binary.LittleEndian.AppendUint64(data, uint64(h))
	}
	return s.put(call, address, uint64(len(data)), data)
}

func (s *Session) listFunctions(call *Call, in *wire.ListFunctions, out *wire.ListFunctionsReply) error {
	handles, err := s.functionsOf(call, abi.Handle(in.Owner), in.Capacity)
	if err != nil {
		return err
	}
	out.Count = uint64(len(handles))
	return s.putHandles(call, in.Address, in.Capacity, handles)
}

// functionsOf returns handles of the functions of a module or the kernels of a library, no more
// than wanted.
func (s *Session) functionsOf(call *Call, owner abi.Handle, wanted uint64) ([]abi.Handle, error) {
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
		f, err := m.find(s, name, call.maker())
		if err != nil {
			return nil, err
		}
		handles = append(handles, f.object.Handle())
	}
	return handles, nil
}

func (s *Session) functionInfo(call *Call, in *wire.FunctionInfo, out *wire.FunctionInfoReply) error {
	f, err := s.functionOf(call, abi.Handle(in.Function))
	if err != nil {
		return err
	}
	data := encodeInfo(f.code.Info())
	out.Size = uint64(len(data))
	return s.put(call, in.Address, in.Capacity, data)
}

// encodeInfo writes what the shim keeps of a function; module.api says how.
func encodeInfo(info gpu.FunctionInfo) []byte {
	params := info.Params
	sort.Slice(params, func(i, j int) bool { return params[i].Offset < params[j].Offset })
	le := binary.LittleEndian
	data := le.AppendUint32(nil, uint32(len(params)))
	data = le.AppendUint32(data, info.ParamBytes)
	for _, a := range info.Attributes {
		data = le.AppendUint32(data, uint32(a))
	}
	data = le.AppendUint32(data, uint32(len(info.Name)))
	data = le.AppendUint32(data, 0)
	for _, p := range params {
		data = le.AppendUint32(le.AppendUint32(data, p.Offset), p.Bytes)
	}
	return append(data, info.Name...)
}

func (s *Session) funcGetModule(_ *Call, in *wire.FuncGetModule, out *wire.FuncGetModuleReply) error {
	f, err := find[*function](s, abi.KindFunction, in.Hfunc)
	if err == nil {
		out.Hmod = f.module.object.Handle()
	}
	return err
}

func (m *module) save(k *saving) saved.State {
	out := &saved.Module{HeapBytes: m.heapBytes}
	if image := m.object.Maker.Image; image != nil {
		out.Image = k.image(image)
	} else {
		out.Library = m.library.object.Handle()
	}
	out.Placed = m.savePlaced(k)
	for _, v := range m.variables {
		out.Variables = append(out.Variables, saved.Variable{Name: v.name, Range: v.bounds, Managed: v.managed})
	}
	return out
}

// restoreImage is code that an object uses, by its place among what was saved.
func (s *Session) restoreImage(r *restoring, o *object.Object, at int) (*fatbin.Images, error) {
	if at < 0 || at >= len(r.images) {
		return nil, damaged("its code is not there")
	}
	o.Maker.Image = s.objects.Images.Use(r.images[at].kept)
	return r.images[at].parsed, nil
}

func (s *Session) restoreModule(r *restoring, o *object.Object, in *saved.Module) (*module, error) {
	c, err := ownerOf[*context](o)
	if err != nil {
		return nil, err
	}
	m := &module{
		object:    o,
		context:   c,
		functions: map[string]*function{},
		heap:      c.device.heap,
		loads:     s.loads[c.device.ordinal],
		heapBytes: in.HeapBytes,
	}
	var images *fatbin.Images
	if in.Library != 0 {
		if m.library, err = s.library(in.Library); err != nil {
			return nil, err
		}
		if m.library.modules[c] != nil {
			return nil, damaged("its library is twice in one context")
		}
		images, m.library.modules[c] = m.library.images, m
	} else if images, err = s.restoreImage(r, o, in.Image); err != nil {
		return nil, err
	}
	m.targets = images.Targets()
	if beforehand := s.reloaded[o.Handle()]; beforehand != nil {
		if err := m.take(beforehand); err != nil {
			return nil, err
		}
		return m, s.restorePlaced(r, m, in.Placed)
	}
	return m, s.restoreCode(r, m, images, in)
}

// restoreCode loads a module's code with its variables where they were.
func (s *Session) restoreCode(r *restoring, m *module, images *fatbin.Images, in *saved.Module) error {
	image, err := images.Best(m.context.device.capability())
	if err != nil {
		return err
	}
	again := func(name string, bytes uint64, managed bool) (uint64, error) {
		n := len(m.variables)
		if n == len(in.Variables) {
			return 0, damaged("variable %s had no memory", name)
		}
		v := in.Variables[n]
		if v.Name != name || v.Managed != managed || v.Range.Bytes < bytes {
			return 0, damaged("variable %s had other memory", name)
		}
		m.variables = append(m.variables, variable{name, v.Range, managed})
		return v.Range.Address, nil
	}
	err = m.loads.loaded(m, func() (err error) {
		m.code, err = m.context.device.context.LoadModule(image, gpu.LoadOptions{
			Filled: true, HeapBytes: in.HeapBytes,
			Place:        func(name string, bytes, _ uint64) (uint64, error) { return again(name, bytes, false) },
			PlaceManaged: func(name string, bytes uint64) (uint64, error) { return again(name, bytes, true) },
		})
		return err
	})
	if err == nil && len(m.variables) < len(in.Variables) {
		err = damaged("it had more variables than its code has")
	}
	if err != nil {
		return err
	}
	if m.library != nil {
		m.know(m.library.object.Maker.Image)
	} else {
		m.know(m.object.Maker.Image)
	}
	return s.restorePlaced(r, m, in.Placed)
}

// settable are the attributes of functions that can be set.
var settable = []abi.FunctionAttribute{
	abi.FuncMaxDynamicSharedBytes, abi.FuncPreferredSharedCarveout, abi.FuncRequiredClusterWidth, abi.FuncRequiredClusterHeight,
	abi.FuncRequiredClusterDepth, abi.FuncNonPortableClusterSizeAllowed, abi.FuncClusterSchedulingPolicy,
}

func (f *function) save(*saving) saved.State {
	out := &saved.Function{Name: f.info.Name}
	now := f.code.Info().Attributes
	for _, a := range settable {
		out.Attributes = append(out.Attributes, saved.Attribute{Number: a, Value: now[a]})
	}
	return out
}

func (s *Session) restoreFunction(r *restoring, o *object.Object, in *saved.Function) (*function, error) {
	m, err := ownerOf[*module](o)
	if err != nil {
		return nil, err
	}
	if m.functions[in.Name] != nil {
		return nil, damaged("its module has function %q twice", in.Name)
	}
	code, err := m.code.Function(in.Name)
	if err != nil {
		return nil, err
	}
	f := &function{object: o, module: m, code: code, info: code.Info()}
	m.functions[in.Name] = f
	r.settle = append(r.settle, func() error { return f.settle(in.Attributes) })
	return f, nil
}

// settle gives the function the attributes that it had. Executables come before: they were checked
// against what the attributes were when they were made.
func (f *function) settle(attributes []saved.Attribute) error {
	now := f.code.Info().Attributes
	for _, a := range attributes {
		if a.Number < 0 || int(a.Number) >= len(now) {
			return damaged("%s has no attribute %d", f.info.Name, a.Number)
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

// saveCode writes what is beside the objects.
func (s *Session) saveCode(k *saving) {
	for i := range s.devices {
		if s.devices[i].context != nil {
			k.out.Devices[i].Loads = s.loads[i].save(k)
		}
	}
}

// restoreCodes makes the state of an object, nil for an object of another topic.
func (s *Session) restoreCodes(r *restoring, o *object.Object, in saved.State) (any, error) {
	switch in := in.(type) {
	case *saved.Module:
		return s.restoreModule(r, o, in)
	case *saved.Function:
		return s.restoreFunction(r, o, in)
	case *saved.Library:
		return s.restoreLibrary(r, o, in)
	case *saved.Kernel:
		return s.restoreKernel(r, o, in)
	}
	return nil, nil
}

// releaseCode frees what an object held when it is destroyed, by itself or with its parent.
func (s *Session) releaseCode(o *object.Object) {
	if m, ok := o.State.(*module); ok {
		s.unloading(m)
		m.close(s)
	}
}
