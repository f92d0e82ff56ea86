package graphs

import (
	"encoding/binary"
	"slices"

	"github.com/phos-gpu/phos/daemon/worker/session/code"
	"github.com/phos-gpu/phos/daemon/worker/session/copies"
	"github.com/phos-gpu/phos/daemon/worker/session/core"
	"github.com/phos-gpu/phos/daemon/worker/session/graph"
	"github.com/phos-gpu/phos/hijack/abi"
	"github.com/phos-gpu/phos/hijack/wire"
)

// kernelNode finds a node that launches.
func (s *Graphs) kernelNode(h abi.Handle) (*graph.Node, graph.Kernel, error) {
	k, err := opOf[graph.Kernel](s, h)
	if err != nil {
		return nil, k, err
	}
	n, err := s.set.Node(h)
	return n, k, err
}

func (s *Graphs) graphNodeAttributeGet(call *core.Call, in *wire.GraphNodeAttributeGet) error {
	_, k, err := s.kernelNode(in.Node)
	if err != nil {
		return err
	}
	var value [abi.LaunchValueBytes]byte
	if id := abi.LaunchAttributeID(in.Id); id == abi.LaunchCooperative && k.Cooperative {
		value[0] = 1
	} else if i := k.Attribute(id); i >= 0 {
		value = k.Attributes[i].Value
	}
	return s.Put(call, in.Into, abi.LaunchValueBytes, value[:])
}

func (s *Graphs) graphNodeAttributeSet(_ *core.Call, in *wire.GraphNodeAttributeSet) error {
	n, k, err := s.kernelNode(in.Node)
	if err != nil {
		return err
	}
	if len(in.Attribute) == abi.LaunchAttributeBytes &&
		abi.LaunchAttributeID(binary.LittleEndian.Uint32(in.Attribute)) == abi.LaunchCooperative {
		k.Cooperative = in.Attribute[abi.LaunchAttributeBytes-abi.LaunchValueBytes] != 0
		return n.SetOp(k)
	}
	given, err := code.ParseLaunchAttributes(in.Attribute)
	switch {
	case err != nil:
		return err
	case len(given) != 1 || !given[0].ID.OfNodes():
		return core.Invalid("set graph node attribute", "it is none of nodes")
	}
	k.Attributes = slices.Clone(k.Attributes)
	if i := k.Attribute(given[0].ID); i >= 0 {
		k.Attributes[i] = given[0]
	} else {
		k.Attributes = append(k.Attributes, given[0])
	}
	return n.SetOp(k)
}

func (s *Graphs) graphKernelNodeCopyAttributes(_ *core.Call, in *wire.GraphKernelNodeCopyAttributes) error {
	_, from, err := s.kernelNode(in.Src)
	if err != nil {
		return err
	}
	to, k, err := s.kernelNode(in.Dst)
	if err != nil {
		return err
	}
	k.Attributes, k.Cooperative = from.Attributes, from.Cooperative
	return to.SetOp(k)
}

// memOpsNode is the op of the arguments that every call about such a node has.
func memOpsNode(words wire.Words) (graph.MemoryOps, error) {
	ops, err := copies.ParseMemoryOps(words)
	return graph.MemoryOps{MemoryOps: ops}, err
}

func (s *Graphs) graphAddMemOpsNode(
	_ *core.Call,
	in *wire.GraphAddMemOpsNode,
	out *wire.GraphAddMemOpsNodeReply,
) error {
	op, err := memOpsNode(in.Ops)
	if err != nil {
		return err
	}
	out.Node, err = s.addNode(in.Graph, in.Dependencies, op)
	return err
}

// graphMemOpsNodeGet writes as many operations as there is room for, and tells how many words there
// are.
func (s *Graphs) graphMemOpsNodeGet(
	call *core.Call,
	in *wire.GraphMemOpsNodeGet,
	out *wire.GraphMemOpsNodeGetReply,
) error {
	op, err := opOf[graph.MemoryOps](s, in.Node)
	if err != nil {
		return err
	}
	frame := copies.EncodeMemoryOps(op.MemoryOps)
	out.Words = uint64(len(frame)) / 8
	return s.Put(call, in.Address, in.Capacity, frame)
}

func (s *Graphs) graphMemOpsNodeSet(_ *core.Call, in *wire.GraphMemOpsNodeSet) error {
	op, err := memOpsNode(in.Ops)
	if err != nil {
		return err
	}
	return s.setNode(in.Node, op)
}

func (s *Graphs) graphExecMemOpsNodeSet(_ *core.Call, in *wire.GraphExecMemOpsNodeSet) error {
	op, err := memOpsNode(in.Ops)
	if err != nil {
		return err
	}
	return s.replaceNode(in.Exec, in.Node, op)
}
