package code

import (
	"errors"
	"slices"

	"github.com/phos-gpu/phos/daemon/gpu"
	"github.com/phos-gpu/phos/daemon/gpu/fatbin"
	"github.com/phos-gpu/phos/daemon/worker/session/core"
	"github.com/phos-gpu/phos/daemon/worker/session/object"
	"github.com/phos-gpu/phos/daemon/worker/session/saved"
	"github.com/phos-gpu/phos/hijack/abi"
	"github.com/phos-gpu/phos/hijack/wire"
)

// library is code that belongs to no context. It is loaded into each context that uses it, at the
// first use.
type library struct {
	object  *object.Object
	images  *fatbin.Images
	modules map[*core.Context]*Module
	kernels map[string]*kernel
}

// kernel is a function of a library, another gpu.Function in each context.
type kernel struct {
	object  *object.Object
	library *library
	name    string
}

// addLibrary enters a library. m is its code in the context that loaded it, nil where there was
// none.
func (s *Code) addLibrary(maker object.Maker, images *fatbin.Images, m *Module) abi.Handle {
	l := &library{images: images, modules: map[*core.Context]*Module{}, kernels: map[string]*kernel{}}
	l.object = s.Objects.Add(
		&object.Object{
			ID:    uint64(s.Objects.NextHandle(abi.KindLibrary)),
			Kind:  abi.KindLibrary,
			Maker: maker,
			State: l,
		},
	)
	if m != nil {
		m.setImage(maker.Image)
		s.addModule(m, object.Maker{Call: maker.Call}, l.object)
		m.library, l.modules[m.context] = l, m
	}
	return l.object.Handle()
}

func (s *Code) library(h abi.Handle) (*library, error) {
	return core.Find[*library](s.Core, abi.KindLibrary, h)
}

// in returns the library's code in a context.
func (l *library) in(s *Code, c *core.Context) (*Module, error) {
	if m := l.modules[c]; m != nil && m.object.State == m {
		return m, nil
	}
	m, err := s.load(c, l.images)
	if err != nil {
		return nil, err
	}
	m.setImage(l.object.Maker.Image)
	s.addModule(m, object.Maker{Call: abi.CallLibraryGetModule}, l.object)
	m.library, l.modules[c] = l, m
	return m, nil
}

// anywhere returns the library's code in the calling thread's context or any other, for questions
// that are the same in all.
func (l *library) anywhere(s *Code, call *core.Call) (*Module, error) {
	c := s.Contexts[call.Context]
	if c == nil {
		if c = s.AnyContext(); c == nil {
			return nil, &gpu.Error{
				Op:     "look into library",
				Code:   abi.InvalidContext,
				Detail: "there is no context to load it into",
			}
		}
	}
	return l.in(s, c)
}

func (s *Code) libraryUnload(_ *core.Call, in *wire.LibraryUnload) error {
	l, err := s.library(in.Library)
	if err != nil {
		return err
	}
	for c, m := range l.modules {
		if s.Contexts[c.Object.Handle().Index()] == c && m.object.State == m {
			s.unload(m)
		}
	}
	s.Destroy(l.object)
	return nil
}

func (s *Code) libraryGetModule(call *core.Call, in *wire.LibraryGetModule, out *wire.LibraryGetModuleReply) error {
	l, err := s.library(in.Library)
	if err != nil {
		return err
	}
	c, err := s.Current(call)
	if err != nil {
		return err
	}
	m, err := l.in(s, c)
	if err == nil {
		out.PMod = m.object.Handle()
	}
	return err
}

// kernel enters a kernel of the library; the module shows that it exists.
func (l *library) kernel(s *Code, m *Module, name string, maker object.Maker) (*kernel, error) {
	if k := l.kernels[name]; k != nil {
		return k, nil
	}
	if _, found := slices.BinarySearch(m.code.Functions(), name); !found {
		return nil, &gpu.Error{Op: "find kernel " + name, Code: abi.NotFound}
	}
	k := &kernel{library: l, name: name}
	k.object = s.Objects.Add(&object.Object{
		ID: uint64(s.Objects.NextHandle(abi.KindKernel)), Kind: abi.KindKernel,
		Maker: maker, Parent: l.object, State: k,
	})
	l.kernels[name] = k
	return k, nil
}

func (s *Code) libraryGetKernel(call *core.Call, in *wire.LibraryGetKernel, out *wire.LibraryGetKernelReply) error {
	l, err := s.library(in.Library)
	if err != nil {
		return err
	}
	m, err := l.anywhere(s, call)
	if err != nil {
		return err
	}
	k, err := l.kernel(s, m, in.Name, call.Maker())
	if err == nil {
		out.PKernel = k.object.Handle()
	}
	return err
}

// kernelsOf returns the first kernels of a library, sorted by name, at most as many as wanted.
func (s *Code) kernelsOf(call *core.Call, h abi.Handle, wanted uint64) ([]abi.Handle, error) {
	l, err := s.library(h)
	if err != nil {
		return nil, err
	}
	m, err := l.anywhere(s, call)
	if err != nil {
		return nil, err
	}
	var handles []abi.Handle
	for _, name := range m.code.Functions() {
		if uint64(len(handles)) == wanted {
			break
		}
		k, err := l.kernel(s, m, name, call.Maker())
		if err != nil {
			return nil, err
		}
		handles = append(handles, k.object.Handle())
	}
	return handles, nil
}

// kernelIn returns a kernel's function in a context.
func (s *Code) kernelIn(k *kernel, c *core.Context) (*Function, error) {
	m, err := k.library.in(s, c)
	if err != nil {
		return nil, err
	}
	if f := m.functions[k.name]; f != nil {
		return f, nil
	}
	return m.find(s, k.name, object.Maker{Call: abi.CallKernelGetFunction})
}

// libraryGlobal returns a variable in the current context. It loads the library there if needed.
func (s *Code) libraryGlobal(call *core.Call, h abi.Handle, name string) (gpu.Range, error) {
	l, err := s.library(h)
	if err != nil {
		return gpu.Range{}, err
	}
	c, err := s.Current(call)
	if err != nil {
		return gpu.Range{}, err
	}
	m, err := l.in(s, c)
	if err != nil {
		return gpu.Range{}, err
	}
	return m.global(name)
}

func (s *Code) libraryGetGlobal(call *core.Call, in *wire.LibraryGetGlobal, out *wire.LibraryGetGlobalReply) error {
	r, err := s.libraryGlobal(call, in.Library, in.Name)
	out.Dptr, out.Bytes = r.Address, r.Bytes
	return err
}

// libraryGetManaged finds a variable that lies in the arena.
func (s *Code) libraryGetManaged(call *core.Call, in *wire.LibraryGetManaged, out *wire.LibraryGetManagedReply) error {
	l, err := s.library(in.Library)
	if err != nil {
		return err
	}
	m, err := l.anywhere(s, call)
	if err != nil {
		return err
	}
	if !m.hasManaged(in.Name) {
		return &gpu.Error{Op: "find managed variable " + in.Name, Code: abi.NotFound}
	}
	r, err := m.global(in.Name) // its size as declared
	out.Dptr, out.Bytes = r.Address, r.Bytes
	return err
}

func (s *Code) libraryGetKernelCount(
	call *core.Call,
	in *wire.LibraryGetKernelCount,
	out *wire.LibraryGetKernelCountReply,
) error {
	l, err := s.library(in.Lib)
	if err != nil {
		return err
	}
	m, err := l.anywhere(s, call)
	if err == nil {
		out.Count = uint32(len(m.code.Functions()))
	}
	return err
}

func (s *Code) kernel(h abi.Handle) (*kernel, error) {
	return core.Find[*kernel](s.Core, abi.KindKernel, h)
}

func (s *Code) kernelGetFunction(call *core.Call, in *wire.KernelGetFunction, out *wire.KernelGetFunctionReply) error {
	k, err := s.kernel(in.Kernel)
	if err != nil {
		return err
	}
	c, err := s.Current(call)
	if err != nil {
		return err
	}
	f, err := s.kernelIn(k, c)
	if err == nil {
		out.PFunc = f.object.Handle()
	}
	return err
}

func (s *Code) kernelGetLibrary(_ *core.Call, in *wire.KernelGetLibrary, out *wire.KernelGetLibraryReply) error {
	k, err := s.kernel(in.Kernel)
	if err == nil {
		out.PLib = k.library.object.Handle()
	}
	return err
}

// linkCheck finds out whether a text can be linked, by loading it alone. What it lacks, other texts
// may bring, so only what is wrong with the text itself is an error.
func (s *Code) linkCheck(call *core.Call, in *wire.LinkCheck, out *wire.LinkCheckReply) error {
	c := s.Contexts[call.Context]
	if c == nil {
		c = s.AnyContext()
	}
	program, address, bytes := s.Program.Memory(call.Slot), in.Address, in.Size
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
		images, err := fatbin.Parse(content)
		if err == nil && c != nil {
			var m *Module
			if m, err = s.load(c, images); err == nil {
				m.setImage(object.NewImage(content))
				m.close(s)
			}
		}
		if errors.Is(err, gpu.ErrUndefined) {
			return nil
		}
		if err != nil {
			out.Log = errorLog(err)
		}
		return err
	})
}

// Save writes the library.
func (l *library) Save(e *core.Encoder) saved.State {
	return &saved.Library{Image: e.Image(l.object.Maker.Image)}
}

func (s *Code) restoreLibrary(r *core.Decoder, o *object.Object, in *saved.Library) (*library, error) {
	images, err := s.restoreImage(r, o, in.Image)
	if err != nil {
		return nil, err
	}
	return &library{object: o, images: images, modules: map[*core.Context]*Module{}, kernels: map[string]*kernel{}}, nil
}

// Save writes the kernel.
func (n *kernel) Save(*core.Encoder) saved.State { return &saved.Kernel{Name: n.name} }

func (s *Code) restoreKernel(o *object.Object, in *saved.Kernel) (*kernel, error) {
	l, err := core.ParentOf[*library](o)
	if err != nil {
		return nil, err
	}
	if l.kernels[in.Name] != nil {
		return nil, core.Damaged("its library has kernel %q twice", in.Name)
	}
	n := &kernel{object: o, library: l, name: in.Name}
	l.kernels[in.Name] = n
	return n, nil
}
