package graphs

import (
	"maps"

	"github.com/phos-gpu/phos/daemon/worker/session/core"
	"github.com/phos-gpu/phos/daemon/worker/session/object"
	"github.com/phos-gpu/phos/daemon/worker/session/saved"
	"github.com/phos-gpu/phos/hijack/abi"
	"github.com/phos-gpu/phos/hijack/wire"
)

// userObject is a destructor of the program with a count of references.
type userObject struct {
	object            *object.Object
	argument, destroy uint64
	count             uint64
}

func (s *Graphs) userObject(h abi.Handle) (*userObject, error) {
	return core.Find[*userObject](s.Core, abi.KindUserObject, h)
}

func (s *Graphs) userObjectCreate(call *core.Call, in *wire.UserObjectCreate, out *wire.UserObjectCreateReply) error {
	const noDestructorSync = 1
	if in.Flags != noDestructorSync || in.InitialRefcount == 0 || in.Destroy == 0 {
		return core.Invalid("create user object", "flags, count or destructor")
	}
	u := &userObject{argument: in.Ptr, destroy: in.Destroy, count: uint64(in.InitialRefcount)}
	u.object = s.Objects.Add(&object.Object{
		ID: uint64(s.Objects.NextHandle(abi.KindUserObject)), Kind: abi.KindUserObject,
		Maker: call.Maker(), State: u,
	})
	out.ObjectOut = u.object.Handle()
	return nil
}

func (s *Graphs) userObjectRetain(_ *core.Call, in *wire.UserObjectRetain) error {
	u, err := s.userObject(in.Object)
	if err == nil {
		u.count += uint64(in.Count)
	}
	return err
}

func (s *Graphs) userObjectRelease(_ *core.Call, in *wire.UserObjectRelease) error {
	u, err := s.userObject(in.Object)
	if err != nil {
		return err
	}
	return s.dropUserObject(u, in.Count)
}

// dropUserObject takes references away; with the last one the program's destructor is called, some
// time later.
func (s *Graphs) dropUserObject(u *userObject, count uint32) error {
	if uint64(count) > u.count {
		return core.Invalid("release user object", "more references than there are")
	}
	u.count -= uint64(count)
	if u.count > 0 {
		return nil
	}
	destructor := wire.Callback{Kind: wire.CallbackDestroy, Function: u.destroy, UserData: u.argument}
	s.Destroy(u.object)
	s.streams.SendCallback(destructor)
	return nil
}

func (s *Graphs) graphRetainUserObject(_ *core.Call, in *wire.GraphRetainUserObject) error {
	const move = 1
	h, err := s.hosted(in.Graph)
	if err != nil {
		return err
	}
	u, err := s.userObject(in.Object)
	if err != nil {
		return err
	}
	if in.Count == 0 || in.Flags > move {
		return core.Invalid("retain user object", "count or flags")
	}
	if in.Flags != move {
		u.count += uint64(in.Count)
	}
	if h.graph.References == nil {
		h.graph.References = map[abi.Handle]uint32{}
	}
	h.graph.References[in.Object] += in.Count
	return nil
}

func (s *Graphs) graphReleaseUserObject(_ *core.Call, in *wire.GraphReleaseUserObject) error {
	h, err := s.hosted(in.Graph)
	if err != nil {
		return err
	}
	u, err := s.userObject(in.Object)
	if err != nil {
		return err
	}
	if in.Count == 0 || in.Count > h.graph.References[in.Object] {
		return core.Invalid("release user object", "the graph has fewer references")
	}
	if h.graph.References[in.Object] -= in.Count; h.graph.References[in.Object] == 0 {
		delete(h.graph.References, in.Object)
	}
	return s.dropUserObject(u, in.Count)
}

// shareReferences gives a copy of a graph references of its own.
func (s *Graphs) shareReferences(references map[abi.Handle]uint32) map[abi.Handle]uint32 {
	for h, count := range references {
		if u, err := s.userObject(h); err == nil {
			u.count += uint64(count)
		}
	}
	return maps.Clone(references)
}

// dropReferences releases a graph's references to user objects. The last one ends an object.
func (s *Graphs) dropReferences(references map[abi.Handle]uint32) {
	for h, count := range references {
		if u, err := s.userObject(h); err == nil {
			_ = s.dropUserObject(u, count) // cannot be more than there are
		}
	}
}

func (u *userObject) Save(*core.Encoder) saved.State {
	return &saved.UserObject{Argument: u.argument, Destroy: u.destroy, Count: u.count}
}

func (s *Graphs) restoreUserObject(o *object.Object, in *saved.UserObject) (*userObject, error) {
	if in.Count == 0 {
		return nil, core.Damaged("it has no references")
	}
	return &userObject{object: o, argument: in.Argument, destroy: in.Destroy, count: in.Count}, nil
}
