package soft

import (
	"fmt"

	"github.com/phos-gpu/phos/daemon/gpu"
	"github.com/phos-gpu/phos/hijack/abi"
)

// ActiveBlocks returns how many blocks of this shape fit one multiprocessor, 0 if none fits.
func (f *Function) ActiveBlocks(threadsPerBlock int, dynamicSharedBytes uint64) (int, error) {
	if threadsPerBlock <= 0 {
		return 0, &gpu.Error{
			Op:     "occupancy",
			Code:   abi.InvalidValue,
			Detail: fmt.Sprintf("%d threads per block", threadsPerBlock),
		}
	}
	info := f.Info()
	if threadsPerBlock > int(info.Attributes[abi.FuncMaxThreadsPerBlock]) ||
		dynamicSharedBytes > uint64(info.Attributes[abi.FuncMaxDynamicSharedBytes]) {
		return 0, nil
	}
	l := f.module.context.backend.spec.Limits()
	static := int(info.Attributes[abi.FuncSharedBytes])
	return l.ActiveBlocks(threadsPerBlock, static+int(dynamicSharedBytes), int(info.Attributes[abi.FuncNumRegs])), nil
}
