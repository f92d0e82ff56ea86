package session

import (
	"encoding/binary"
	"fmt"

	"github.com/phos-gpu/phos/daemon/gpu"
	"github.com/phos-gpu/phos/daemon/worker/session/graph"
	"github.com/phos-gpu/phos/hijack/abi"
	"github.com/phos-gpu/phos/hijack/wire"
)

const (
	launchCooperative    = 1
	mostLaunchAttributes = 16
)

// launch runs a kernel. This is the call that programs make most; what it costs here they pay a
// million times.
func (s *Session) launch(call *Call, in *wire.Launch) error {
	return s.launchKernel(call, in.Stream, &graph.Kernel{
		Function: abi.Handle(in.Function), SharedBytes: in.SharedBytes, Cooperative: in.Flags&launchCooperative != 0,
		Grid: [3]uint32{in.GridX, in.GridY, in.GridZ}, Block: [3]uint32{in.BlockX, in.BlockY, in.BlockZ},
		Params: in.Params,
	})
}

func (s *Session) launchWith(call *Call, in *wire.LaunchWith) error {
	attributes, err := launchAttributes(in.Attributes)
	if err != nil {
		return err
	}
	return s.launchKernel(call, in.Stream, &graph.Kernel{
		Function: abi.Handle(in.Function), SharedBytes: in.SharedBytes, Cooperative: in.Flags&launchCooperative != 0,
		Grid: [3]uint32{in.GridX, in.GridY, in.GridZ}, Block: [3]uint32{in.BlockX, in.BlockY, in.BlockZ},
		Params: in.Params, Attributes: attributes,
	})
}

// launchAttributes reads what the program wrote. Of what it names, all must be something that a
// backend can be trusted with.
func launchAttributes(data []byte) ([]abi.LaunchAttribute, error) {
	if len(data)%abi.LaunchAttributeBytes != 0 || len(data) > mostLaunchAttributes*abi.LaunchAttributeBytes {
		return nil, invalid("launch", "attributes of no possible size")
	}
	attributes := make([]abi.LaunchAttribute, len(data)/abi.LaunchAttributeBytes)
	for i := range attributes {
		each := data[i*abi.LaunchAttributeBytes:][:abi.LaunchAttributeBytes]
		attributes[i].ID = abi.LaunchAttributeID(binary.LittleEndian.Uint32(each))
		copy(attributes[i].Value[:], each[abi.LaunchAttributeBytes-abi.LaunchValueBytes:])
		if id := attributes[i].ID; !id.Passed() || id == abi.LaunchCooperative {
			return nil, &gpu.Error{Op: "launch", Code: abi.NotSupported, Detail: fmt.Sprintf("launch attribute %d", id)}
		}
	}
	return attributes, nil
}

// launchKernel runs a kernel whose parameters lie in the frame.
func (s *Session) launchKernel(call *Call, stream abi.Handle, k *graph.Kernel) error {
	st, err := s.stream(call, stream)
	if err != nil {
		return err
	}
	f, err := s.function(st.context, k.Function)
	if err != nil {
		return err
	}
	if err := f.accepts(k, len(k.Params)); err != nil {
		return err
	}
	k.Params = s.params.keep(k.Params)
	if st.line.Capturing() {
		_, err := st.line.Add(*k)
		return err
	}
	if st.line.Legacy && s.capturing > 0 {
		if err := s.captures.Implicit(st.line.Context); err != nil {
			return err
		}
	}
	s.recent.note(f)
	st.keeps(len(k.Params))
	return st.enqueue(f.work(k))
}

// accepts checks what every backend would have to check. Shapes that only some devices can run are
// theirs to refuse.
func (f *function) accepts(k *graph.Kernel, paramBytes int) error {
	for i := range 3 {
		if k.Grid[i] == 0 || k.Block[i] == 0 {
			return invalid("launch "+f.info.Name, "a dimension is 0")
		}
	}
	if paramBytes < int(f.info.ParamBytes) {
		return invalid("launch "+f.info.Name, "the parameter block is too short")
	}
	return nil
}

// work makes work of a kernel that f accepts.
func (f *function) work(k *graph.Kernel) gpu.Launch {
	return gpu.Launch{
		Function: f.code, Grid: k.Grid, Block: k.Block, SharedBytes: k.SharedBytes, Params: k.Params, Cooperative: k.Cooperative,
		Attributes: k.Attributes,
	}
}

func (s *Session) funcSetAttribute(call *Call, in *wire.FuncSetAttribute) error {
	f, err := s.functionOf(call, in.Hfunc)
	if err != nil {
		return err
	}
	return f.code.SetAttribute(in.Attrib, in.Value)
}

func (s *Session) occupancyMaxActiveBlocksPerMultiprocessorWithFlags(
	call *Call,
	in *wire.OccupancyMaxActiveBlocksPerMultiprocessorWithFlags,
	out *wire.OccupancyMaxActiveBlocksPerMultiprocessorWithFlagsReply,
) error {
	f, err := s.functionOf(call, in.Func)
	if err != nil {
		return err
	}
	if in.BlockSize <= 0 {
		return invalid("compute occupancy", "block size")
	}
	blocks, err := f.code.ActiveBlocks(int(in.BlockSize), in.DynamicSMemSize)
	out.NumBlocks = int32(blocks)
	return err
}

// occupancyAvailableDynamicSMemPerBlock shares the multiprocessor's memory out among the blocks, in
// steps of 128 bytes.
func (s *Session) occupancyAvailableDynamicSMemPerBlock(call *Call,
	in *wire.OccupancyAvailableDynamicSMemPerBlock, out *wire.OccupancyAvailableDynamicSMemPerBlockReply,
) error {
	f, err := s.functionOf(call, in.Func)
	if err != nil {
		return err
	}
	if in.NumBlocks <= 0 || in.BlockSize <= 0 {
		return invalid("compute occupancy", "blocks or block size")
	}
	attributes := f.module.context.device.info.Attributes
	each := attributes[abi.AttrMaxSharedMemoryPerMultiprocessor] / in.NumBlocks
	each = min(each-attributes[abi.AttrReservedSharedMemoryPerBlock], attributes[abi.AttrMaxSharedMemoryPerBlockOptin])
	each = (each - f.info.Attributes[abi.FuncSharedBytes]) &^ 127
	out.DynamicSmemSize = uint64(max(each, 0))
	return nil
}

func (s *Session) occupancyMaxActiveClusters(
	call *Call,
	in *wire.OccupancyMaxActiveClusters,
	out *wire.OccupancyMaxActiveClustersReply,
) error {
	f, err := s.functionOf(call, abi.Handle(in.Function))
	if err != nil {
		return err
	}
	threads := uint64(in.BlockX) * uint64(in.BlockY) * uint64(in.BlockZ)
	cluster := uint64(max(in.ClusterX, 1)) * uint64(max(in.ClusterY, 1)) * uint64(max(in.ClusterZ, 1))
	if threads == 0 || threads > 1024 || cluster > 16 {
		return invalid("compute occupancy", "block or cluster shape")
	}
	blocks, err := f.code.ActiveBlocks(int(threads), uint64(in.SharedBytes))
	out.NumClusters = int32(
		blocks,
	) * f.module.context.device.info.Attributes[abi.AttrMultiprocessorCount] / int32(
		cluster,
	)
	return err
}
