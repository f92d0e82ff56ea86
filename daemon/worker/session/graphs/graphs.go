package graphs

import (
	"github.com/phos-gpu/phos/daemon/worker/session/core"
	"github.com/phos-gpu/phos/daemon/worker/session/graph"
	"github.com/phos-gpu/phos/daemon/worker/session/object"
	"github.com/phos-gpu/phos/daemon/worker/session/saved"
	"github.com/phos-gpu/phos/hijack/abi"
	"github.com/phos-gpu/phos/hijack/wire"
)

// hosted is a graph of the program.
type hosted struct {
	object *object.Object
	graph  *graph.Graph
	// captured graphs are still being made by a capture, which may fail and take them along.
	captured bool
}

// addGraph enters a graph; g is nil for an empty one.
func (s *Graphs) addGraph(call *core.Call, g *graph.Graph) *hosted {
	if g == nil {
		g = s.set.NewGraph(s.Objects.NextHandle(abi.KindGraph))
	}
	h := &hosted{graph: g}
	h.object = s.Objects.Add(&object.Object{ID: uint64(g.Handle), Kind: abi.KindGraph, Maker: call.Maker(), State: h})
	s.addChildren(g, h.object)
	return h
}

// addChildren enters the graphs of child nodes, so that the program can have their handles.
func (s *Graphs) addChildren(g *graph.Graph, parent *object.Object) {
	for _, child := range g.Children() {
		if s.Objects.Get(uint64(child.Handle)) == nil {
			h := &hosted{graph: child}
			h.object = s.Objects.Add(
				&object.Object{ID: uint64(child.Handle), Kind: abi.KindGraph, Parent: parent, State: h},
			)
		}
	}
}

// free releases a graph's references to user objects, and the handles of its nodes.
func (h *hosted) free(s *Graphs) {
	s.dropReferences(h.graph.References)
	h.graph.Release()
}

func (s *Graphs) hosted(h abi.Handle) (*hosted, error) {
	return core.Find[*hosted](s.Core, abi.KindGraph, h)
}

func (s *Graphs) executable(h abi.Handle) (*executable, error) {
	return core.Find[*executable](s.Core, abi.KindGraphExec, h)
}

func (s *Graphs) graphCreate(call *core.Call, in *wire.GraphCreate, out *wire.GraphCreateReply) error {
	if in.Flags != 0 {
		return core.Invalid("create graph", "flags must be 0")
	}
	out.PhGraph = s.addGraph(call, nil).graph.Handle
	return nil
}

func (s *Graphs) graphDestroy(_ *core.Call, in *wire.GraphDestroy) error {
	h, err := s.hosted(in.HGraph)
	if err != nil {
		return err
	}
	if h.graph.IsChild() || h.captured {
		return core.Invalid("destroy graph", "it belongs to a node or to a capture")
	}
	s.Destroy(h.object)
	return nil
}

func (s *Graphs) graphClone(call *core.Call, in *wire.GraphClone, out *wire.GraphCloneReply) error {
	h, err := s.hosted(in.OriginalGraph)
	if err != nil {
		return err
	}
	clone := h.graph.Clone(s.nextGraph)
	clone.References = s.shareReferences(h.graph.References)
	out.PhGraphClone = s.addGraph(call, clone).graph.Handle
	return nil
}

func (s *Graphs) nextGraph() abi.Handle { return s.Objects.NextHandle(abi.KindGraph) }

func (s *Graphs) graphDot(call *core.Call, in *wire.GraphDot, out *wire.GraphDotReply) error {
	h, err := s.hosted(in.Graph)
	if err != nil {
		return err
	}
	text := h.graph.Dot(func(op graph.Op) string {
		if k, ok := op.(graph.Kernel); ok {
			return s.code.FunctionName(k.Function)
		}
		return ""
	})
	out.Size = uint64(len(text))
	return s.Put(call, in.Address, in.Capacity, []byte(text))
}

func (h *hosted) Save(*core.Encoder) saved.State {
	if h.graph.IsChild() {
		return &saved.Graph{}
	}
	return &saved.Graph{Record: h.graph.Record()}
}

func (s *Graphs) restoreGraph(r *core.Decoder, o *object.Object, in *saved.Graph) (*hosted, error) {
	if s.children == nil {
		s.children = map[abi.Handle]*graph.Graph{}
		r.Finish = append(r.Finish, func() error { s.children = nil; return nil })
	}
	if in.Record == nil {
		g := s.children[o.Handle()]
		if _, err := core.ParentOf[*hosted](o); err != nil || g == nil {
			return nil, core.Damaged("no node has it as its child")
		}
		delete(s.children, o.Handle())
		return &hosted{object: o, graph: g}, nil
	}
	g, err := s.set.Restore(in.Record)
	if err != nil {
		return nil, err
	}
	for _, child := range g.Children() {
		if s.children[child.Handle] != nil || s.Objects.Get(uint64(child.Handle)) != nil ||
			child.Handle.Kind() != abi.KindGraph {
			return nil, core.Damaged("%v is no new graph", child.Handle)
		}
		s.children[child.Handle] = child
		s.Objects.ReserveHandle(child.Handle)
	}
	if g.Handle != o.Handle() {
		return nil, core.Damaged("it says that it is %v", g.Handle)
	}
	return &hosted{object: o, graph: g}, nil
}

// RestoreRelations finishes graphs that name younger ones.
func (s *Graphs) RestoreRelations(r *core.Decoder) error {
	for i := range r.In.Objects {
		if g, ok := r.In.Objects[i].State.(*saved.Graph); ok && g.Record != nil {
			if err := s.set.Relate(g.Record); err != nil {
				return err
			}
		}
	}
	return nil
}
