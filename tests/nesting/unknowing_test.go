package nesting

import (
	"testing"

	"github.com/phos-gpu/phos/hijack/abi"
	"github.com/phos-gpu/phos/tests/lab"
)

// TestUnknowingDriver runs programs over a driver that does not say what kernels there are, or what their parameters are, as those of
// CUDA 12.0 do not: the code says it, as text, and as machine code of which the driver has the text, too.
func TestUnknowingDriver(t *testing.T) {
	// The machine code is for what software GPUs say to be, else it would be passed over for the text.
	programs := map[string]string{}
	for name, target := range map[string]string{"text": "arch=compute_90,code=compute_90", "machine code": "arch=compute_90,code=[sm_90,compute_90]"} {
		programs[name] = lab.Compile(t, lab.CUDA, "-O2", "-std=c++17", "-cudart=static", "-gencode="+target, lab.Workload("cuda", "layouts.cu"))
	}
	o := newOrders(t)
	daemon := lab.StartOver(t, lab.StartAlone(t, "--gpus=soft:1"), o.library)
	for name, program := range programs {
		for _, call := range []string{"cuFuncGetParamInfo", "cuModuleGetFunctionCount", "cuFuncGetName"} {
			t.Run(name+"/"+call, func(t *testing.T) {
				o.fail(call, 1, alwaysThis, abi.NotSupported)
				daemon.Program(program).In(t).OK()
				if o.failed() == 0 {
					t.Error("the driver was not asked")
				}
			})
		}
	}
	daemon.Empty()
}
