package cudadrv

import (
	"sync/atomic"

	"github.com/phos-gpu/phos/hijack/abi"
)

var observer atomic.Pointer[func(call string, code abi.Result)]

// Observe sets a function that is called for each driver call that fails. Errors contain only the
// driver's code, and most operations take several calls.
func Observe(tell func(call string, code abi.Result)) { observer.Store(&tell) }

// answers are error codes that are normal answers of a call, not failures.
var answers = map[string]abi.Result{
	"cuDeviceGetAttribute": abi.InvalidValue, "cuFuncGetAttribute": abi.InvalidValue, "cuFuncGetParamInfo": abi.InvalidValue,
	"cuModuleGetGlobal_v2": abi.NotFound,
}

// refused returns the error of a call, after it was observed.
func refused(call string, code abi.Result) error {
	if code == abi.NotReady {
		return code
	}
	if tell := observer.Load(); tell != nil && answers[call] != code {
		(*tell)(call, code)
	}
	return code
}
