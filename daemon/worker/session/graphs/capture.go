package graphs

import (
	"github.com/phos-gpu/phos/daemon/worker/session/core"
	"github.com/phos-gpu/phos/daemon/worker/session/graph"
	"github.com/phos-gpu/phos/hijack/abi"
	"github.com/phos-gpu/phos/hijack/wire"
)

func (s *Graphs) streamBeginCapture(call *core.Call, in *wire.StreamBeginCapture) error {
	st, err := s.Stream(call, in.HStream)
	if err != nil {
		return err
	}
	h := s.addGraph(call, nil)
	h.captured = true
	if err := s.Captures.Begin(&st.Line, h.graph, nil, graph.Mode(in.Mode), call.Slot); err != nil {
		s.discardGraph(h.graph)
		return err
	}
	s.ReportCapturing()
	return nil
}

func (s *Graphs) streamBeginCaptureToGraph(call *core.Call, in *wire.StreamBeginCaptureToGraph) error {
	st, err := s.Stream(call, in.Stream)
	if err != nil {
		return err
	}
	h, err := s.hosted(in.Graph)
	if err != nil {
		return err
	}
	tip, err := s.nodes(in.Dependencies)
	if err != nil {
		return err
	}
	if err := s.Captures.Begin(&st.Line, h.graph, tip, graph.Mode(in.Mode), call.Slot); err != nil {
		return err
	}
	s.ReportCapturing()
	return nil
}

func (s *Graphs) streamEndCapture(call *core.Call, in *wire.StreamEndCapture, out *wire.StreamEndCaptureReply) error {
	st, err := s.Stream(call, in.HStream)
	if err != nil {
		return err
	}
	g, err := s.Captures.End(&st.Line, call.Slot, s.DiscardGraph)
	s.ReportCapturing()
	if err != nil {
		return err
	}
	if h, err := s.hosted(g.Handle); err == nil {
		h.captured = false
	}
	out.PhGraph = g.Handle
	return nil
}

// discardGraph drops the graph of a capture that failed. One that the program made itself stays.
func (s *Graphs) discardGraph(g *graph.Graph) {
	if h, err := s.hosted(g.Handle); err == nil && h.captured {
		s.Destroy(h.object)
	}
}

func (s *Graphs) streamCaptureInfo(
	call *core.Call,
	in *wire.StreamCaptureInfo,
	out *wire.StreamCaptureInfoReply,
) error {
	st, err := s.Stream(call, in.Stream)
	if err != nil {
		return err
	}
	if st.Line.Legacy {
		return s.Captures.Implicit(st.Line.Context)
	}
	status, id, g, tip := st.Line.Status()
	out.Status, out.Id, out.Count = int32(status), id, uint64(len(tip))
	if g != nil {
		out.Graph = g.Handle
	}
	return s.PutHandles(call, in.Address, in.Capacity, handlesOf(tip))
}

func (s *Graphs) streamUpdateCaptureDependencies(call *core.Call, in *wire.StreamUpdateCaptureDependencies) error {
	const add, set = 0, 1
	st, err := s.Stream(call, in.HStream)
	if err != nil {
		return err
	}
	if in.Flags != add && in.Flags != set {
		return core.Invalid("update capture dependencies", "unknown flags")
	}
	nodes, err := s.nodes(in.Dependencies)
	if err != nil {
		return err
	}
	return st.Line.SetTip(nodes, in.Flags == set)
}

// nodes returns the nodes that an array of handles in a call names.
func (s *Graphs) nodes(handles wire.Words) ([]*graph.Node, error) {
	list := make([]abi.Handle, handles.Len())
	for i := range list {
		list[i] = handles.Handle(i)
	}
	return s.set.Nodes(list)
}

// handlesOf returns the nodes' handles in the same order.
func handlesOf(nodes []*graph.Node) []abi.Handle {
	handles := make([]abi.Handle, len(nodes))
	for i, n := range nodes {
		handles[i] = n.Handle
	}
	return handles
}
