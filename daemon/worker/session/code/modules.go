package code

import (
	"errors"
	"fmt"
	"slices"

	"github.com/phos-gpu/phos/daemon/gpu"
	"github.com/phos-gpu/phos/daemon/gpu/fatbin"
	"github.com/phos-gpu/phos/daemon/worker/session/core"
	"github.com/phos-gpu/phos/daemon/worker/session/graph"
	"github.com/phos-gpu/phos/daemon/worker/session/heap"
	"github.com/phos-gpu/phos/daemon/worker/session/object"
	"github.com/phos-gpu/phos/daemon/worker/session/saved"
	"github.com/phos-gpu/phos/hijack/abi"
	"github.com/phos-gpu/phos/hijack/wire"
)

// Module is code loaded into a context.
type Module struct {
	object  *object.Object
	context *core.Context
	code    gpu.Module
	// library is what the code is of, nil for a module of its own.
	library   *library
	functions map[string]*Function
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

const logBytes = 800 // what a reply slot has room for

// close unloads the code. It needs no lock, and does not wait for a load.
func (m *Module) close(s *Code) {
	s.removePlaced(m)
	m.loads.unloaded(m.load, func() {
		if err := m.code.Close(); err != nil {
			s.Log.Warn("unload module", "error", err)
		}
		m.free(s)
	})
}

// free gives the variables' memory back.
func (m *Module) free(s *Code) {
	for _, v := range m.variables {
		if v.managed {
			s.memory.FreePages(v.bounds)
		} else {
			_ = m.heap.Free(v.bounds.Address) // with the device gone, it is free already
		}
	}
}

// load brings code onto the context's device. It needs no lock, but the context must stay.
func (s *Code) load(c *core.Context, images *fatbin.Images) (*Module, error) {
	d := c.Device
	image, err := images.Best(d.Capability())
	if err != nil {
		return nil, err
	}
	m := &Module{
		context:   c,
		functions: map[string]*Function{},
		heap:      d.Heap,
		loads:     s.loads[d.Ordinal],
		heapBytes: c.HeapBytes.Load(),
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
		return r.Address, clearReused(d, r)
	}
	placeManaged := func(name string, bytes uint64) (uint64, error) {
		r, err := s.memory.AllocatePages(bytes)
		if err != nil {
			return 0, fmt.Errorf("place managed variable %s: %w", name, err)
		}
		m.variables = append(m.variables, variable{name, r, true})
		return r.Address, nil
	}
	err = m.loads.loaded(m, func() (err error) {
		m.code, err = d.GPU.LoadModule(
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

// clearReused zeroes memory that shares its chunk with other allocations, because it may have been
// used before. The chunks of a larger allocation have just been mapped and are zero.
func clearReused(d *core.Device, r gpu.Range) error {
	if r.Bytes > heap.SmallBytes {
		return nil
	}
	if _, err := d.GPU.Memory().WriteAt(make([]byte, r.Bytes), int64(r.Address)); err != nil {
		return fmt.Errorf("clear a variable's memory: %w", err)
	}
	return nil
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
func (s *Code) moduleLoad(call *core.Call, in *wire.ModuleLoad, out *wire.ModuleLoadReply) error {
	c := s.Contexts[call.Context]
	if c == nil && in.Library == 0 {
		_, err := s.Current(call)
		return err
	}
	program, maker := s.Program.Memory(call.Slot), call.Maker()
	address, bytes, library := in.Address, in.Size, in.Library != 0
	release := func() {}
	if c != nil {
		release = c.Hold(nil)
	}
	return call.Detach(func() error {
		defer release()
		content, err := readImage(program, address, bytes)
		if err != nil {
			return err
		}
		h, err := s.loadImage(c, content, maker, library)
		if err != nil {
			out.Log = errorLog(err)
			s.Log.Info("code refused", "error", err)
			return err
		}
		out.Handle = uint64(h)
		return nil
	})
}

func (s *Code) loadImage(c *core.Context, content []byte, maker object.Maker, asLibrary bool) (abi.Handle, error) {
	images, err := fatbin.Parse(content)
	if err != nil {
		return 0, err
	}
	var m *Module
	if c != nil {
		if m, err = s.load(c, images); err != nil {
			return 0, err
		}
	}
	s.Mu.Lock()
	defer s.Mu.Unlock()
	if c != nil && c.Ending {
		m.close(s)
		return 0, &gpu.Error{Op: "load module", Code: abi.ContextIsDestroyed}
	}
	maker.Image = s.Objects.Images.Keep(content)
	if asLibrary {
		return s.addLibrary(maker, images, m), nil
	}
	m.setImage(maker.Image)
	s.addModule(m, maker)
	return m.object.Handle(), nil
}

func (s *Code) addModule(m *Module, maker object.Maker, needs ...*object.Object) {
	m.object = s.Objects.Add(&object.Object{
		ID: uint64(s.Objects.NextHandle(abi.KindModule)), Kind: abi.KindModule,
		Maker: maker, Parent: m.context.Object, Needs: needs, State: m,
	})
}

// hasManaged reports whether a variable of the module is managed.
func (m *Module) hasManaged(name string) bool {
	return slices.ContainsFunc(m.variables, func(v variable) bool { return v.managed && v.name == name })
}

func (s *Code) module(h abi.Handle) (*Module, error) {
	return core.Find[*Module](s.Core, abi.KindModule, h)
}

// moduleUnload unloads code when all work is done that was submitted before.
func (s *Code) moduleUnload(_ *core.Call, in *wire.ModuleUnload) error {
	m, err := s.module(in.Hmod)
	if err != nil {
		return err
	}
	s.unload(m)
	return nil
}

// Launches reports whether an op launches a function of a module in a context.
func (s *Code) Launches(c *core.Context, op graph.Op, m *Module) bool {
	k, ok := op.(graph.Kernel)
	if !ok {
		return false
	}
	o := s.Objects.Get(uint64(k.Function))
	if o == nil {
		return false
	}
	switch state := o.State.(type) {
	case *Function:
		return state.module == m
	case *kernel:
		return state.library.modules[c] == m
	}
	return false
}

// unload ends a module. Its memory stays until the work submitted so far is done.
func (s *Code) unload(m *Module) {
	s.Unloading(m)
	s.Objects.Destroy(m.object, func(*object.Object) {})
	s.reclaim.AfterAll(m.context.Device, func() { m.close(s) })
}

// global finds a variable of a module; abi.NotFound where there is none.
func (m *Module) global(name string) (gpu.Range, error) {
	r, found := m.code.Globals()[name]
	if !found {
		return r, &gpu.Error{Op: "find variable " + name, Code: abi.NotFound}
	}
	return r, nil
}

func (s *Code) moduleGetGlobal(_ *core.Call, in *wire.ModuleGetGlobal, out *wire.ModuleGetGlobalReply) error {
	m, err := s.module(in.Hmod)
	if err != nil {
		return err
	}
	r, err := m.global(in.Name)
	out.Dptr, out.Bytes = r.Address, r.Bytes
	return err
}

// Save writes the module.
func (m *Module) Save(e *core.Encoder) saved.State {
	out := &saved.Module{HeapBytes: m.heapBytes}
	if image := m.object.Maker.Image; image != nil {
		out.Image = e.Image(image)
	} else {
		out.Library = m.library.object.Handle()
	}
	out.Placed = m.savePlaced(e)
	for _, v := range m.variables {
		out.Variables = append(out.Variables, saved.Variable{Name: v.name, Range: v.bounds, Managed: v.managed})
	}
	return out
}

// restoreImage is code that an object uses, by its place among what was saved.
func (s *Code) restoreImage(r *core.Decoder, o *object.Object, at int) (*fatbin.Images, error) {
	if at < 0 || at >= len(r.Images) {
		return nil, core.Damaged("its code is not there")
	}
	o.Maker.Image = s.Objects.Images.Use(r.Images[at].Kept)
	return r.Images[at].Parsed, nil
}

func (s *Code) restoreModule(r *core.Decoder, o *object.Object, in *saved.Module) (*Module, error) {
	c, err := core.ParentOf[*core.Context](o)
	if err != nil {
		return nil, err
	}
	m := &Module{
		object:    o,
		context:   c,
		functions: map[string]*Function{},
		heap:      c.Device.Heap,
		loads:     s.loads[c.Device.Ordinal],
		heapBytes: in.HeapBytes,
	}
	var images *fatbin.Images
	if in.Library != 0 {
		if m.library, err = s.library(in.Library); err != nil {
			return nil, err
		}
		if m.library.modules[c] != nil {
			return nil, core.Damaged("its library is twice in one context")
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
		return m, s.restorePlaced(m, in.Placed)
	}
	return m, s.restoreCode(m, images, in)
}

// restoreCode loads a module's code with its variables where they were.
func (s *Code) restoreCode(m *Module, images *fatbin.Images, in *saved.Module) error {
	image, err := images.Best(m.context.Device.Capability())
	if err != nil {
		return err
	}
	again := func(name string, bytes uint64, managed bool) (uint64, error) {
		n := len(m.variables)
		if n == len(in.Variables) {
			return 0, core.Damaged("variable %s had no memory", name)
		}
		v := in.Variables[n]
		if v.Name != name || v.Managed != managed || v.Range.Bytes < bytes {
			return 0, core.Damaged("variable %s had other memory", name)
		}
		m.variables = append(m.variables, variable{name, v.Range, managed})
		return v.Range.Address, nil
	}
	err = m.loads.loaded(m, func() (err error) {
		m.code, err = m.context.Device.GPU.LoadModule(image, gpu.LoadOptions{
			Filled: true, HeapBytes: in.HeapBytes,
			Place:        func(name string, bytes, _ uint64) (uint64, error) { return again(name, bytes, false) },
			PlaceManaged: func(name string, bytes uint64) (uint64, error) { return again(name, bytes, true) },
		})
		return err
	})
	if err == nil && len(m.variables) < len(in.Variables) {
		err = core.Damaged("it had more variables than its code has")
	}
	if err != nil {
		return err
	}
	if m.library != nil {
		m.setImage(m.library.object.Maker.Image)
	} else {
		m.setImage(m.object.Maker.Image)
	}
	return s.restorePlaced(m, in.Placed)
}
