package soft

import (
	"fmt"
	"runtime"

	"github.com/phos-gpu/phos/daemon/gpu"
	"github.com/phos-gpu/phos/daemon/gpu/soft/model"
	"github.com/phos-gpu/phos/daemon/gpu/soft/simt"
	"github.com/phos-gpu/phos/hijack/abi"
)

// checkLaunch returns the errors that the driver reports at the call.
func (c *Context) checkLaunch(w gpu.Launch) error {
	f, ok := w.Function.(*Function)
	if !ok || f.module.context != c || f.module.closed.Load() {
		return &gpu.Error{
			Op:     "launch",
			Code:   abi.InvalidHandle,
			Detail: "no function of a loaded module of this context",
		}
	}
	if len(w.Params) > model.MaxParamBytes {
		return &gpu.Error{
			Op:     "launch " + f.info.Name,
			Code:   abi.InvalidValue,
			Detail: fmt.Sprintf("%d bytes of parameters", len(w.Params)),
		}
	}
	return w.Check(gpu.LaunchLimits{
		Kernel: f.info.Name, Grid: [3]uint32{model.MaxGridX, model.MaxGridYZ, model.MaxGridYZ},
		Block:         [3]uint32{model.MaxBlockThreads, model.MaxBlockThreads, model.MaxBlockZ},
		DeviceThreads: model.MaxBlockThreads, KernelThreads: f.maxThreads.Load(), Required: f.required,
		DynamicSharedBytes: f.maxDynamic.Load(), ParamBytes: f.info.ParamBytes,
		Clusters: f.blank && c.backend.spec.Clusters(),
		Resident: func(threads int, shared uint64) (uint64, error) {
			fit, err := f.ActiveBlocks(threads, shared)
			return uint64(fit) * uint64(c.backend.spec.Multiprocessors()), err
		},
	})
}

// launch runs a kernel to its end.
func (c *Context) launch(w gpu.Launch) error {
	c.backend.kernels.Add(1)
	defer c.backend.kernels.Add(-1)
	f := w.Function.(*Function) // checkLaunch has checked the type
	if f.blank {
		return nil
	}
	return c.backend.engine.Run(c.running, f.kernel, simt.Launch{
		Grid:        w.Grid,
		Block:       w.Block,
		SharedBytes: w.SharedBytes,
		Params:      w.Params,
		Cooperative: w.Cooperative,
		GridID:      c.launches.Add(1),
	}, c.device.space, c.output)
}

// idleCores returns how many processors memory work may use: all, or one while a kernel runs.
func (b *Backend) idleCores() int {
	if b.kernels.Load() > 0 {
		return 1
	}
	if b.spec.Cores > 0 {
		return b.spec.Cores
	}
	return runtime.GOMAXPROCS(0)
}

// EncodeTensorMap encodes a tensor description.
func (c *Context) EncodeTensorMap(tensor *abi.TensorMap) ([abi.EncodedTensorMapBytes]byte, error) {
	return model.EncodeTensor(tensor)
}

// ReplaceAddress returns the tensor map with another address.
func (c *Context) ReplaceAddress(
	encoded [abi.EncodedTensorMapBytes]byte,
	address uint64,
) ([abi.EncodedTensorMapBytes]byte, error) {
	return model.MoveTensor(encoded, address)
}

// ActiveClusters counts how many clusters fit. Clusters of several blocks fit blank devices only.
func (f *Function) ActiveClusters(launch gpu.Launch) (int, error) {
	blocks, err := f.ActiveBlocks(int(launch.Block[0]*launch.Block[1]*launch.Block[2]), uint64(launch.SharedBytes))
	spec, size := &f.module.context.backend.spec, launch.Cluster()
	return spec.ActiveClusters(blocks, int(size[0]*size[1]*size[2])), err
}

// LargestCluster returns the maximum number of blocks in a cluster: 1 where kernels run.
func (f *Function) LargestCluster(gpu.Launch) (int, error) {
	if !f.module.context.backend.spec.Clusters() {
		return 1, nil
	}
	if f.Info().Attributes[abi.FuncNonPortableClusterSizeAllowed] != 0 {
		return model.LargestCluster, nil
	}
	return model.PortableCluster, nil
}
