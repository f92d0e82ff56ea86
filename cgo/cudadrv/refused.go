package cudadrv

import (
	"sync/atomic"

	"github.com/phos-gpu/phos/hijack/abi"
)

var observer atomic.Pointer[func(call string, code abi.Result)]

// Observe has somebody told of every call that the driver refuses, by its name: an error has the
// driver's code alone, and most things take several calls.
func Observe(tell func(call string, code abi.Result)) { observer.Store(&tell) }

// answers are refusals by which the driver only says that there is no such thing.
var answers = map[string]abi.Result{
	"cuDeviceGetAttribute": abi.InvalidValue, "cuFuncGetAttribute": abi.InvalidValue, "cuFuncGetParamInfo": abi.InvalidValue,
	"cuModuleGetGlobal_v2": abi.NotFound,
}

// refused is the error of a call.
func refused(call string, code abi.Result) error {
	if code == abi.NotReady {
		return code
	}
	if tell := observer.Load(); tell != nil && answers[call] != code {
		(*tell)(call, code)
	}
	return code
}
