package graphs

import (
	"github.com/phos-gpu/phos/daemon/worker/session/code"
	"github.com/phos-gpu/phos/daemon/worker/session/copies"
	"github.com/phos-gpu/phos/daemon/worker/session/core"
	"github.com/phos-gpu/phos/daemon/worker/session/graph"
	"github.com/phos-gpu/phos/daemon/worker/session/object"
	"github.com/phos-gpu/phos/daemon/worker/session/reclaim"
	"github.com/phos-gpu/phos/daemon/worker/session/saved"
	"github.com/phos-gpu/phos/daemon/worker/session/streams"
	"github.com/phos-gpu/phos/hijack/abi"
)

// Graphs handles the calls about graphs, the capture of streams, and user objects.
type Graphs struct {
	*core.Core
	reclaim *reclaim.Reclaimer
	streams *streams.Streams
	copies  *copies.Copies
	code    *code.Code
	set     *graph.Set
	// children are the graphs of child nodes that no object names yet while a session is restored.
	children map[abi.Handle]*graph.Graph
}

// New returns the topic of a session.
func New(c *core.Core, r *reclaim.Reclaimer, st *streams.Streams, co *copies.Copies, k *code.Code) *Graphs {
	s := &Graphs{Core: c, reclaim: r, streams: st, copies: co, code: k}
	s.set = graph.NewSet(func() abi.Handle { return c.Objects.NextHandle(abi.KindGraphNode) })
	c.DiscardGraph, k.Unloading = s.discardGraph, s.markStale
	return s
}

// Restore makes the state of an object, nil for an object of another topic.
func (s *Graphs) Restore(r *core.Decoder, o *object.Object, in saved.State) (core.State, error) {
	switch in := in.(type) {
	case *saved.Graph:
		return s.restoreGraph(r, o, in)
	case *saved.Executable:
		return s.restoreExecutable(r, o, in)
	case *saved.UserObject:
		return s.restoreUserObject(o, in)
	}
	return nil, nil
}

// Release frees what an object held when it is destroyed, by itself or with its parent.
func (s *Graphs) Release(o *object.Object) {
	switch state := o.State.(type) {
	case *executable:
		state.close(s)
	case *hosted:
		state.free(s)
	}
}

// Save has nothing beside the objects.
func (s *Graphs) Save(*core.Encoder) {}
