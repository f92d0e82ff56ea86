package session

import (
	"github.com/phos-gpu/phos/daemon/worker/session/graph"
	"github.com/phos-gpu/phos/hijack/abi"
	"github.com/phos-gpu/phos/hijack/wire"
)

func (s *Session) streamBeginCapture(call *Call, in *wire.StreamBeginCapture) error {
	st, err := s.stream(call, in.HStream)
	if err != nil {
		return err
	}
	h := s.addGraph(call, nil)
	h.captured = true
	if err := s.captures.Begin(&st.line, h.graph, nil, graph.Mode(in.Mode), call.Slot); err != nil {
		s.discardGraph(h.graph)
		return err
	}
	s.tellCapturing()
	return nil
}

func (s *Session) streamBeginCaptureToGraph(call *Call, in *wire.StreamBeginCaptureToGraph) error {
	st, err := s.stream(call, in.Stream)
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
	if err := s.captures.Begin(&st.line, h.graph, tip, graph.Mode(in.Mode), call.Slot); err != nil {
		return err
	}
	s.tellCapturing()
	return nil
}

func (s *Session) streamEndCapture(call *Call, in *wire.StreamEndCapture, out *wire.StreamEndCaptureReply) error {
	st, err := s.stream(call, in.HStream)
	if err != nil {
		return err
	}
	g, err := s.captures.End(&st.line, call.Slot, s.discard)
	s.tellCapturing()
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
func (s *Session) discardGraph(g *graph.Graph) {
	if h, err := s.hosted(g.Handle); err == nil && h.captured {
		s.destroy(h.object)
	}
}

func (s *Session) streamCaptureInfo(call *Call, in *wire.StreamCaptureInfo, out *wire.StreamCaptureInfoReply) error {
	st, err := s.stream(call, in.Stream)
	if err != nil {
		return err
	}
	if st.line.Legacy {
		return s.captures.Implicit(st.line.Context)
	}
	status, id, g, tip := st.line.Status()
	out.Status, out.Id, out.Count = int32(status), id, uint64(len(tip))
	if g != nil {
		out.Graph = g.Handle
	}
	return s.putHandles(call, in.Address, in.Capacity, handlesOf(tip))
}

func (s *Session) streamUpdateCaptureDependencies(call *Call, in *wire.StreamUpdateCaptureDependencies) error {
	const add, set = 0, 1
	st, err := s.stream(call, in.HStream)
	if err != nil {
		return err
	}
	if in.Flags != add && in.Flags != set {
		return invalid("update capture dependencies", "unknown flags")
	}
	nodes, err := s.nodes(in.Dependencies)
	if err != nil {
		return err
	}
	return st.line.SetTip(nodes, in.Flags == set)
}

// nodes returns the nodes that an array of handles in a call names.
func (s *Session) nodes(handles wire.Words) ([]*graph.Node, error) {
	list := make([]abi.Handle, handles.Len())
	for i := range list {
		list[i] = handles.Handle(i)
	}
	return s.graphs.Nodes(list)
}

func handlesOf(nodes []*graph.Node) []abi.Handle {
	handles := make([]abi.Handle, len(nodes))
	for i, n := range nodes {
		handles[i] = n.Handle
	}
	return handles
}
