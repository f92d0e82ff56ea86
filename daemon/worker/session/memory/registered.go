package memory

import (
	"fmt"

	"github.com/phos-gpu/phos/daemon/gpu"
	"github.com/phos-gpu/phos/daemon/worker/session/core"
	"github.com/phos-gpu/phos/daemon/worker/session/object"
	"github.com/phos-gpu/phos/daemon/worker/session/saved"
	"github.com/phos-gpu/phos/hijack/abi"
	"github.com/phos-gpu/phos/hijack/wire"
)

// registered is memory of the program that it wants GPUs to reach, and that they do reach.
type registered struct {
	object *object.Object
	bounds gpu.Range
	// shared is nil in a restored session until the program is back.
	shared core.Shared
}

// hostRegister shows the program's memory to kernels where it can be shared. Other memory is for
// the library to remember.
func (s *Memory) hostRegister(call *core.Call, in *wire.HostRegister, out *wire.HostRegisterReply) error {
	r := gpu.Range{Address: in.Address, Bytes: in.Bytes}
	if s.Options.Share == nil {
		return nil
	}
	if s.holder(r.Address) != nil || s.inArena(r) {
		return core.Invalid("register memory", "it is the session's")
	}
	maker := call.Maker()
	return call.Detach(func() error {
		shared, err := s.Options.Share(r)
		if err != nil {
			s.Log.Debug("registered memory stays out of kernels' reach", "address", r.Address, "error", err)
			return nil
		}
		s.Mu.Lock()
		defer s.Mu.Unlock()
		if s.Closed || s.Objects.Get(r.Address) != nil {
			_ = shared.Close()
			return abi.HostMemoryAlreadyRegistered
		}
		g := &registered{bounds: r, shared: shared}
		if err := s.host.add(g); err != nil {
			s.Log.Warn("registered memory stays out of kernels' reach", "address", r.Address, "error", err)
			return nil
		}
		g.object = s.Objects.Add(&object.Object{ID: r.Address, Kind: object.KindRegistered, Maker: maker, State: g})
		out.Shown = 1
		return nil
	})
}

// inArena reports whether a range begins in the arena.
func (s *Memory) inArena(r gpu.Range) bool {
	arena := gpu.Range{Address: s.Options.Arena.Address(), Bytes: uint64(len(s.Options.Arena.Bytes()))}
	return arena.Contains(gpu.Range{Address: r.Address, Bytes: 1})
}

func (s *Memory) hostUnregister(call *core.Call, in *wire.HostUnregister) error {
	o := s.Objects.Get(in.Address)
	if o == nil || o.Kind != object.KindRegistered {
		return &gpu.Error{Op: "unregister memory", Code: abi.HostMemoryNotRegistered}
	}
	g := o.State.(*registered)
	s.Objects.Destroy(o, func(*object.Object) {})
	return s.reclaim.AfterWork(call, func() error {
		s.host.remove(g)
		return nil
	})
}

// ShowRegistered is for a restored session when the program is back and stands still: what it
// shares is shown again.
func (s *Memory) ShowRegistered() error {
	s.Mu.Lock()
	defer s.Mu.Unlock()
	for o := range s.Objects.Records() {
		g, ok := o.State.(*registered)
		if !ok || o.Retired() || g.shared != nil {
			continue
		}
		shared, err := s.Options.Share(g.bounds)
		if err == nil {
			g.shared = shared
			err = s.host.add(g)
		}
		if err != nil {
			return fmt.Errorf("show registered memory at %#x again: %w", g.bounds.Address, err)
		}
	}
	return nil
}

func (g *registered) Save(*core.Encoder) saved.State { return &saved.Registered{Bytes: g.bounds.Bytes} }

func (s *Memory) restoreRegistered(o *object.Object, in *saved.Registered) (*registered, error) {
	bounds := gpu.Range{Address: o.ID, Bytes: in.Bytes}
	if s.Options.Share == nil || in.Bytes == 0 || bounds.End() < o.ID || s.holder(o.ID) != nil ||
		s.inArena(bounds) ||
		o.Parent != nil {
		return nil, core.Damaged("it is no memory of the program")
	}
	return &registered{object: o, bounds: bounds}, nil
}
