package code

import (
	"fmt"
	"slices"
	"sync"

	"github.com/phos-gpu/phos/daemon/gpu"
	"github.com/phos-gpu/phos/daemon/worker/session/core"
	"github.com/phos-gpu/phos/daemon/worker/session/object"
	"github.com/phos-gpu/phos/daemon/worker/session/saved"
	"github.com/phos-gpu/phos/hijack/abi"
)

// loads is how code came and went on a device whose driver places variables: the gaps between those
// that are there come from those that are not. The driver does one thing after the other, so that
// their order is known.
type loads struct {
	// turn is held while the driver loads or unloads code, which may take long: it compiles, and may
	// wait for work. Only a load waits for its turn.
	turn sync.Mutex

	mu    sync.Mutex // guards what follows
	steps []*load
	// leaving is code to be unloaded by the goroutine that has the turn.
	leaving []leaving
}

// leaving is a load that leave takes back.
type leaving struct {
	load  *load
	leave func()
}

// load is code that came, or, with unloads, went.
type load struct {
	// module is what came, nil once it has gone.
	module *Module
	// image is the code, nil where the program was not told that it came.
	image     *object.Image
	heapBytes uint64
	unloads   *load
}

// loaded says that the step is code that has not gone.
func (x *load) loaded() bool { return x.module != nil }

// How much is remembered of code that has gone: so many loads, with so much code.
const (
	maxGone      = 256
	maxGoneBytes = 64 << 20
)

// loaded calls come, which loads the module's code.
func (l *loads) loaded(m *Module, come func() error) error {
	if l == nil {
		return come()
	}
	err := l.inTurn(m, come)
	l.unloadLeaving()
	return err
}

// inTurn is loaded when it is the goroutine's turn.
func (l *loads) inTurn(m *Module, come func() error) error {
	l.turn.Lock()
	defer l.turn.Unlock()
	err := come()
	if err == nil {
		m.load = &load{module: m, heapBytes: m.heapBytes}
		l.mu.Lock()
		defer l.mu.Unlock()
		l.steps = append(l.steps, m.load)
	}
	return err
}

// unloaded calls leave, which takes a load back. If the driver is loading other code, the goroutine
// that waits for it calls leave afterwards.
func (l *loads) unloaded(x *load, leave func()) {
	if l == nil {
		leave()
		return
	}
	l.mu.Lock()
	l.leaving = append(l.leaving, leaving{x, leave})
	l.mu.Unlock()
	l.unloadLeaving()
}

// unloadLeaving unloads what is to leave, unless another goroutine has the turn: that one looks
// again after its turn.
func (l *loads) unloadLeaving() {
	for l.anyLeaving() && l.turn.TryLock() {
		for next, found := l.nextLeaving(); found; next, found = l.nextLeaving() {
			next.leave()
		}
		l.turn.Unlock()
	}
}

// anyLeaving reports whether anything is to leave.
func (l *loads) anyLeaving() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.leaving) > 0
}

// nextLeaving takes out what has waited longest to leave, and adds its step. turn is held.
func (l *loads) nextLeaving() (next leaving, found bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.leaving) == 0 {
		return leaving{}, false
	}
	next, l.leaving = l.leaving[0], l.leaving[1:]
	next.load.module = nil
	l.steps = append(l.steps, &load{unloads: next.load})
	l.forget()
	return next, true
}

// forget takes out the oldest entries of unloaded code, as far as they exceed the limit. Code that
// came and went without leaving a gap is remembered too: a driver may have kept memory of it. mu is
// held.
func (l *loads) forget() {
	for {
		var oldest *load
		gone, bytes := 0, 0
		seen := map[*object.Image]bool{}
		for _, x := range l.steps {
			if x.loaded() || x.unloads != nil {
				continue
			}
			if gone++; oldest == nil {
				oldest = x
			}
			if x.image != nil && !seen[x.image] {
				seen[x.image] = true
				bytes += len(x.image.Bytes)
			}
		}
		if gone <= maxGone && bytes <= maxGoneBytes {
			return
		}
		l.steps = slices.DeleteFunc(l.steps, func(x *load) bool { return x == oldest || x.unloads == oldest })
	}
}

// setImage tells whose code came. Of each content, one copy is kept.
func (m *Module) setImage(image *object.Image) {
	if m.load == nil {
		return
	}
	m.loads.mu.Lock()
	defer m.loads.mu.Unlock()
	same := func(x *load) bool { return x.image != nil && x.image.Hash == image.Hash }
	if at := slices.IndexFunc(m.loads.steps, same); at >= 0 {
		image = m.loads.steps[at].image
	}
	m.load.image = image
}

// Save writes down what can be repeated.
func (l *loads) Save(e *core.Encoder) (out []saved.Load) {
	if l == nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	numbers := map[*load]int{}
	for _, x := range l.steps {
		var step saved.Load
		switch {
		case x.unloads != nil && numbers[x.unloads] != 0:
			step.Unloads = numbers[x.unloads]
		case x.image == nil:
			continue // its context was destroyed while it was loaded
		case x.loaded():
			step.Module = x.module.object.Handle()
		default:
			step.Image, step.HeapBytes = e.Image(x.image), x.heapBytes
		}
		out = append(out, step)
		numbers[x] = len(out)
	}
	return out
}

// Opened is called when a device has been opened, before anything is loaded there.
func (s *Code) Opened(d *core.Device) {
	s.loads[d.Ordinal] = nil
	if _, ok := d.GPU.(gpu.Placer); ok {
		s.loads[d.Ordinal] = &loads{}
	}
}

// Reload repeats how code came and went, before anything else happens in a context.
func (s *Code) Reload(r *core.Decoder, d *core.Device) error {
	in := r.In.Devices[d.Ordinal].Loads
	if s.loads[d.Ordinal] == nil {
		return nil
	}
	if len(in) > len(r.In.Objects)+2*maxGone {
		return core.Damaged("code was loaded and unloaded %d times", len(in))
	}
	came := make([]*Module, len(in))
	for i := range in {
		if err := s.reloadStep(r, d, &in[i], came[:i+1]); err != nil {
			return fmt.Errorf("load %d of %d: %w", i+1, len(in), err)
		}
	}
	return nil
}

// reloadStep repeats the last of some steps. came are the modules of the steps before, nil
// where there are none.
func (s *Code) reloadStep(r *core.Decoder, d *core.Device, in *saved.Load, came []*Module) error {
	last := len(came) - 1
	switch {
	case in.Unloads > 0:
		if in.Unloads > last || came[in.Unloads-1] == nil {
			return core.Damaged("it unloads load %d, which is not there", in.Unloads)
		}
		gone := came[in.Unloads-1]
		came[in.Unloads-1] = nil
		return s.restoreUnload(d, gone)
	case in.Module != 0:
		if s.reloaded[in.Module] != nil {
			return core.Damaged("%v is loaded twice", in.Module)
		}
		m, err := s.reloadModule(r, d, in.Module)
		if err == nil {
			if s.reloaded == nil {
				s.reloaded = map[abi.Handle]*Module{}
				r.Finish = append(r.Finish, func() error { s.reloaded = nil; return nil })
			}
			s.reloaded[in.Module] = m
		}
		return err
	case in.Image < 0 || in.Image >= len(r.Images):
		return core.Damaged("its code is not there")
	}
	m, err := s.restoreLoad(d, in.HeapBytes, r.Images[in.Image])
	if err != nil {
		s.Log.Warn(
			"cannot load code that was unloaded since: later code may get other addresses",
			"error",
			err,
		)
		return nil
	}
	came[last] = m
	return nil
}

// reloadModule loads the code of a module that is still there.
func (s *Code) reloadModule(r *core.Decoder, d *core.Device, handle abi.Handle) (*Module, error) {
	at := slices.IndexFunc(r.In.Objects, func(o saved.Object) bool { return o.ID == uint64(handle) })
	if at < 0 {
		return nil, core.Damaged("there is no %v", handle)
	}
	in, ok := r.In.Objects[at].State.(*saved.Module)
	if !ok {
		return nil, core.Damaged("%v is no module", handle)
	}
	code := in.Image
	if in.Library != 0 {
		at = slices.IndexFunc(r.In.Objects, func(o saved.Object) bool { return o.ID == uint64(in.Library) })
		library, is := (*saved.Library)(nil), false
		if at >= 0 {
			library, is = r.In.Objects[at].State.(*saved.Library)
		}
		if !is {
			return nil, core.Damaged("%v has no library", handle)
		}
		code = library.Image
	}
	if code < 0 || code >= len(r.Images) {
		return nil, core.Damaged("its code is not there")
	}
	m, err := s.reloadInPlace(d, in, r.Images[code])
	if err != nil {
		return nil, fmt.Errorf("%v: %w", handle, err)
	}
	return m, nil
}

// maxCopies is how often code is loaded until its variables lie where they were.
const maxCopies = 8

// reloadInPlace loads code so that its variables lie where they were: where a gap before them is
// unknown, copies of the code fill it. Where nothing helps, the error is a MovedError about where
// they lay at first.
func (s *Code) reloadInPlace(d *core.Device, in *saved.Module, image core.Image) (*Module, error) {
	m, err := s.restoreLoad(d, in.HeapBytes, image)
	if err != nil {
		return nil, err
	}
	first := moved(m, in.Placed)
	var misplaced []*Module
	for moved(m, in.Placed) != nil && len(misplaced) < maxCopies {
		next, err := s.restoreLoad(d, in.HeapBytes, image)
		if err != nil {
			break // there is no room for more
		}
		misplaced, m = append(misplaced, m), next
	}
	for _, other := range slices.Backward(misplaced) {
		if err := s.restoreUnload(d, other); err != nil {
			return nil, err
		}
	}
	if moved(m, in.Placed) != nil {
		return nil, first
	}
	return m, nil
}

// restoreLoad loads code for which there is no handle yet.
func (s *Code) restoreLoad(d *core.Device, heapBytes uint64, image core.Image) (*Module, error) {
	best, err := image.Parsed.Best(d.Capability())
	if err != nil {
		return nil, err
	}
	m := &Module{heapBytes: heapBytes, loads: s.loads[d.Ordinal]}
	err = s.loads[d.Ordinal].loaded(m, func() (err error) {
		m.code, err = d.GPU.LoadModule(best, gpu.LoadOptions{HeapBytes: heapBytes})
		return err
	})
	if err != nil {
		return nil, err
	}
	m.load.image = image.Kept
	return m, nil
}

// restoreUnload unloads code again. Nothing else loads code meanwhile.
func (s *Code) restoreUnload(d *core.Device, m *Module) (err error) {
	s.loads[d.Ordinal].unloaded(m.load, func() { err = m.code.Close() })
	return err
}

// take gives a module the code that Reload has loaded for it.
func (m *Module) take(other *Module) error {
	if other.loads != m.loads {
		return core.Damaged("its code was loaded on another GPU")
	}
	m.code, m.load = other.code, other.load
	m.load.module = m
	return nil
}

// moved is an error about the first variable that is not where it was, nil for none.
func moved(m *Module, want []saved.Placed) error {
	now := m.code.Globals()
	for _, v := range want {
		if at, found := now[v.Name]; found && at.Address != v.Address {
			return &MovedError{Name: v.Name, Was: v.Address, Now: at.Address}
		}
	}
	return nil
}
