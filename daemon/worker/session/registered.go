package session

import (
	"fmt"

	"github.com/phos-gpu/phos/daemon/gpu"
	"github.com/phos-gpu/phos/daemon/worker/session/object"
	"github.com/phos-gpu/phos/daemon/worker/session/saved"
	"github.com/phos-gpu/phos/hijack/abi"
	"github.com/phos-gpu/phos/hijack/wire"
)

// Shared is memory of the program that this process has too: the pages of a file.
type Shared interface {
	// Memory is the range that was asked for.
	Memory() []byte
	Close() error
}

// registered is memory of the program that it wants GPUs to reach, and that they do reach.
type registered struct {
	object *object.Object
	bounds gpu.Range
	// shared is nil in a restored session until the program is back.
	shared Shared
}

// hostRegister shows the program's memory to kernels where it can be shared. Other memory is for
// the library to remember.
func (s *Session) hostRegister(call *Call, in *wire.HostRegister, out *wire.HostRegisterReply) error {
	r := gpu.Range{Address: in.Address, Bytes: in.Bytes}
	if s.options.Share == nil {
		return nil
	}
	if s.holder(r.Address) != nil || s.inArena(r) {
		return invalid("register memory", "it is the session's")
	}
	maker := call.maker()
	return call.Beside(func() error {
		shared, err := s.options.Share(r)
		if err != nil {
			s.log.Debug("registered memory stays out of kernels' reach", "address", r.Address, "error", err)
			return nil
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.closed || s.objects.Get(r.Address) != nil {
			_ = shared.Close()
			return abi.HostMemoryAlreadyRegistered
		}
		g := &registered{bounds: r, shared: shared}
		if err := s.showRegistered(g); err != nil {
			s.log.Warn("registered memory stays out of kernels' reach", "address", r.Address, "error", err)
			return nil
		}
		g.object = s.objects.Add(&object.Object{ID: r.Address, Kind: object.KindRegistered, Maker: maker, State: g})
		out.Shown = 1
		return nil
	})
}

func (s *Session) inArena(r gpu.Range) bool {
	arena := gpu.Range{Address: s.options.Arena.Address(), Bytes: uint64(len(s.options.Arena.Bytes()))}
	return arena.Contains(gpu.Range{Address: r.Address, Bytes: 1})
}

// showRegistered maps memory in every device that is open, and in those that will be. When it
// fails, nothing is left of it.
func (s *Session) showRegistered(g *registered) error {
	s.shown.mu.Lock()
	defer s.shown.mu.Unlock()
	for _, other := range s.shown.registered {
		if g.bounds.Address < other.bounds.End() && other.bounds.Address < g.bounds.End() {
			_ = g.shared.Close()
			return &gpu.Error{Op: "register memory", Code: abi.HostMemoryAlreadyRegistered}
		}
	}
	for _, d := range s.devices {
		c := d.opened.Load()
		if c == nil {
			continue
		}
		if err := (*c).Memory().MapHost(g.bounds.Address, g.shared.Memory()); err != nil {
			s.hideEverywhere(g.bounds.Address)
			_ = g.shared.Close()
			return fmt.Errorf("show it to GPU %d: %w", d.ordinal, err)
		}
	}
	if s.shown.registered == nil {
		s.shown.registered = map[uint64]*registered{}
	}
	s.shown.registered[g.bounds.Address] = g
	return nil
}

// hideRegistered takes it back. Nobody uses the memory any more.
func (s *Session) hideRegistered(g *registered) {
	s.shown.mu.Lock()
	defer s.shown.mu.Unlock()
	if s.shown.registered[g.bounds.Address] != g {
		return
	}
	delete(s.shown.registered, g.bounds.Address)
	s.hideEverywhere(g.bounds.Address)
	if err := g.shared.Close(); err != nil {
		s.log.Warn("unmap registered memory", "address", g.bounds.Address, "error", err)
	}
}

func (s *Session) hostUnregister(call *Call, in *wire.HostUnregister) error {
	o := s.objects.Get(in.Address)
	if o == nil || o.Kind != object.KindRegistered {
		return &gpu.Error{Op: "unregister memory", Code: abi.HostMemoryNotRegistered}
	}
	g := o.State.(*registered)
	s.objects.Destroy(o, func(*object.Object) {})
	return s.behind(call, func() error {
		s.hideRegistered(g)
		return nil
	})
}

// registeredAt finds registered memory that a range lies in.
func (s *Session) registeredAt(r gpu.Range) (gpu.Range, bool) {
	s.shown.mu.Lock()
	defer s.shown.mu.Unlock()
	for _, g := range s.shown.registered {
		if g.bounds.Contains(r) {
			return g.bounds, true
		}
	}
	return gpu.Range{}, false
}

// Return is for a restored session when the program is back and stands still: what it shares is
// shown again.
func (s *Session) Return() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for o := range s.objects.Records() {
		g, is := o.State.(*registered)
		if !is || o.Retired() || g.shared != nil {
			continue
		}
		shared, err := s.options.Share(g.bounds)
		if err == nil {
			g.shared = shared
			err = s.showRegistered(g)
		}
		if err != nil {
			return fmt.Errorf("show registered memory at %#x again: %w", g.bounds.Address, err)
		}
	}
	return nil
}

func (g *registered) save(*saving) saved.State { return &saved.Registered{Bytes: g.bounds.Bytes} }

func (s *Session) restoreRegistered(r *restoring, o *object.Object, in *saved.Registered) (*registered, error) {
	bounds := gpu.Range{Address: o.ID, Bytes: in.Bytes}
	if s.options.Share == nil || in.Bytes == 0 || bounds.End() < o.ID || s.holder(o.ID) != nil ||
		s.inArena(bounds) ||
		o.Owner != nil {
		return nil, damaged("it is no memory of the program")
	}
	return &registered{object: o, bounds: bounds}, nil
}
