package code

import (
	"bytes"
	"encoding/binary"

	"github.com/phos-gpu/phos/daemon/gpu"
	"github.com/phos-gpu/phos/daemon/worker/session/core"
	"github.com/phos-gpu/phos/hijack/abi"
	"github.com/phos-gpu/phos/hijack/wire"
)

// What occupancyClusters asks for.
const (
	clustersThatFit = 0
	largestCluster  = 1
)

func (s *Code) occupancyClusters(call *core.Call, in *wire.OccupancyClusters, out *wire.OccupancyClustersReply) error {
	f, err := s.functionOf(call, abi.Handle(in.Function))
	if err != nil {
		return err
	}
	attributes, err := ParseLaunchAttributes(in.Attributes)
	if err != nil {
		return err
	}
	launch := gpu.Launch{
		Function: f.code, SharedBytes: in.SharedBytes, Attributes: attributes,
		Grid: [3]uint32{in.GridX, in.GridY, in.GridZ}, Block: [3]uint32{in.BlockX, in.BlockY, in.BlockZ},
	}
	code, ok := f.code.(gpu.ClusterFunction)
	count := 0
	switch {
	case !ok:
		return &gpu.Error{
			Op:     "compute occupancy",
			Code:   abi.NotSupported,
			Detail: "the device has no clusters of blocks",
		}
	case in.What == clustersThatFit:
		count, err = code.ActiveClusters(launch)
	case in.What == largestCluster:
		count, err = code.LargestCluster(launch)
	default:
		err = core.Invalid("compute occupancy", "unknown question")
	}
	out.Count = int32(count)
	return err
}

// tensorMapper is the calling thread's context, where it can describe tensors.
func (s *Code) tensorMapper(call *core.Call) (gpu.TensorMapper, error) {
	c, err := s.Current(call)
	if err != nil {
		return nil, err
	}
	mapper, ok := c.Device.GPU.(gpu.TensorMapper)
	if !ok {
		return nil, &gpu.Error{
			Op:     "encode tensor map",
			Code:   abi.NotSupported,
			Detail: "the device has no tensor memory accelerator",
		}
	}
	return mapper, nil
}

func (s *Code) tensorMap(call *core.Call, in *wire.TensorMap) error {
	mapper, err := s.tensorMapper(call)
	if err != nil {
		return err
	}
	var tensor abi.TensorMap
	if err := binary.Read(bytes.NewReader(in.Description), binary.LittleEndian, &tensor); err != nil ||
		len(in.Description) != abi.TensorMapBytes {
		return core.Invalid("encode tensor map", "a description of another size")
	}
	if tensor.Kind > abi.TensorIm2colWide || tensor.Rank == 0 || tensor.Rank > uint64(len(tensor.Sizes)) {
		return core.Invalid("encode tensor map", "unknown kind or rank")
	}
	encoded, err := mapper.EncodeTensorMap(&tensor)
	if err != nil {
		return err
	}
	return s.Put(call, in.Into, abi.EncodedTensorMapBytes, encoded[:])
}

func (s *Code) tensorMapReplace(call *core.Call, in *wire.TensorMapReplace) error {
	mapper, err := s.tensorMapper(call)
	if err != nil {
		return err
	}
	if len(in.Map) != abi.EncodedTensorMapBytes {
		return core.Invalid("replace address of tensor map", "a tensor map of another size")
	}
	encoded, err := mapper.ReplaceAddress([abi.EncodedTensorMapBytes]byte(in.Map), in.Address)
	if err != nil {
		return err
	}
	return s.Put(call, in.Into, abi.EncodedTensorMapBytes, encoded[:])
}
