package code

import (
	"encoding/binary"
	"fmt"

	"github.com/phos-gpu/phos/daemon/gpu"
	"github.com/phos-gpu/phos/daemon/worker/session/core"
	"github.com/phos-gpu/phos/daemon/worker/session/graph"
	"github.com/phos-gpu/phos/hijack/abi"
	"github.com/phos-gpu/phos/hijack/wire"
)

const (
	launchCooperative   = 1
	maxLaunchAttributes = 16
)

// launch runs a kernel. This is the call that programs make most; what it costs here they pay a
// million times.
func (s *Code) launch(call *core.Call, in *wire.Launch) error {
	return s.launchKernel(call, in.Stream, &graph.Kernel{
		Function: abi.Handle(in.Function), SharedBytes: in.SharedBytes, Cooperative: in.Flags&launchCooperative != 0,
		Grid: [3]uint32{in.GridX, in.GridY, in.GridZ}, Block: [3]uint32{in.BlockX, in.BlockY, in.BlockZ},
		Params: in.Params,
	})
}

func (s *Code) launchWith(call *core.Call, in *wire.LaunchWith) error {
	attributes, err := ParseLaunchAttributes(in.Attributes)
	if err != nil {
		return err
	}
	return s.launchKernel(call, in.Stream, &graph.Kernel{
		Function: abi.Handle(in.Function), SharedBytes: in.SharedBytes, Cooperative: in.Flags&launchCooperative != 0,
		Grid: [3]uint32{in.GridX, in.GridY, in.GridZ}, Block: [3]uint32{in.BlockX, in.BlockY, in.BlockZ},
		Params: in.Params, Attributes: attributes,
	})
}

// ParseLaunchAttributes reads what the program wrote. Of what it names, all must be something that
// a backend can be trusted with.
func ParseLaunchAttributes(data []byte) ([]abi.LaunchAttribute, error) {
	if len(data)%abi.LaunchAttributeBytes != 0 || len(data) > maxLaunchAttributes*abi.LaunchAttributeBytes {
		return nil, core.Invalid("launch", "attributes of no possible size")
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
func (s *Code) launchKernel(call *core.Call, stream abi.Handle, k *graph.Kernel) error {
	st, err := s.Stream(call, stream)
	if err != nil {
		return err
	}
	f, err := s.Function(st.Context, k.Function)
	if err != nil {
		return err
	}
	if err := f.Accepts(k, len(k.Params)); err != nil {
		return err
	}
	k.Params = s.Params.Keep(k.Params)
	if st.Line.Capturing() {
		_, err := st.Line.Add(*k)
		return err
	}
	if st.Line.Legacy && s.Capturing() {
		if err := s.Captures.Implicit(st.Line.Context); err != nil {
			return err
		}
	}
	s.recent.note(f)
	st.CountBytes(len(k.Params))
	return st.Enqueue(f.Work(k))
}

// Accepts checks what every backend would have to check. Shapes that only some devices can run are
// theirs to refuse.
func (f *Function) Accepts(k *graph.Kernel, paramBytes int) error {
	for i := range 3 {
		if k.Grid[i] == 0 || k.Block[i] == 0 {
			return core.Invalid("launch "+f.info.Name, "a dimension is 0")
		}
	}
	if paramBytes < int(f.info.ParamBytes) {
		return core.Invalid("launch "+f.info.Name, "the parameter block is too short")
	}
	return nil
}

// Work makes work of a kernel that f accepts.
func (f *Function) Work(k *graph.Kernel) gpu.Launch {
	return gpu.Launch{
		Function: f.code, Grid: k.Grid, Block: k.Block, SharedBytes: k.SharedBytes, Params: k.Params, Cooperative: k.Cooperative,
		Attributes: k.Attributes,
	}
}

func (s *Code) funcSetAttribute(call *core.Call, in *wire.FuncSetAttribute) error {
	f, err := s.functionOf(call, in.Hfunc)
	if err != nil {
		return err
	}
	return f.code.SetAttribute(in.Attrib, in.Value)
}

func (s *Code) occupancyMaxActiveBlocksPerMultiprocessorWithFlags(
	call *core.Call,
	in *wire.OccupancyMaxActiveBlocksPerMultiprocessorWithFlags,
	out *wire.OccupancyMaxActiveBlocksPerMultiprocessorWithFlagsReply,
) error {
	f, err := s.functionOf(call, in.Func)
	if err != nil {
		return err
	}
	if in.BlockSize <= 0 {
		return core.Invalid("compute occupancy", "block size")
	}
	blocks, err := f.code.ActiveBlocks(int(in.BlockSize), in.DynamicSMemSize)
	out.NumBlocks = int32(blocks)
	return err
}

// occupancyAvailableDynamicSMemPerBlock shares the multiprocessor's memory out among the blocks, in
// steps of 128 bytes.
func (s *Code) occupancyAvailableDynamicSMemPerBlock(call *core.Call,
	in *wire.OccupancyAvailableDynamicSMemPerBlock, out *wire.OccupancyAvailableDynamicSMemPerBlockReply,
) error {
	f, err := s.functionOf(call, in.Func)
	if err != nil {
		return err
	}
	if in.NumBlocks <= 0 || in.BlockSize <= 0 {
		return core.Invalid("compute occupancy", "blocks or block size")
	}
	attributes := f.module.context.Device.Info.Attributes
	each := attributes[abi.AttrMaxSharedMemoryPerMultiprocessor] / in.NumBlocks
	each = min(each-attributes[abi.AttrReservedSharedMemoryPerBlock], attributes[abi.AttrMaxSharedMemoryPerBlockOptin])
	each = (each - f.info.Attributes[abi.FuncSharedBytes]) &^ 127
	out.DynamicSmemSize = uint64(max(each, 0))
	return nil
}

func (s *Code) occupancyMaxActiveClusters(
	call *core.Call,
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
		return core.Invalid("compute occupancy", "block or cluster shape")
	}
	blocks, err := f.code.ActiveBlocks(int(threads), uint64(in.SharedBytes))
	out.NumClusters = int32(
		blocks,
	) * f.module.context.Device.Info.Attributes[abi.AttrMultiprocessorCount] / int32(
		cluster,
	)
	return err
}
