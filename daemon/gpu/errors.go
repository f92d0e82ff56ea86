package gpu

import (
	"errors"
	"fmt"

	"github.com/phos-gpu/phos/hijack/abi"
)

// ErrUndefined is in the chain of a module's error when the module uses a name that nothing in it
// defines. Alone it cannot be loaded; linked with others it may.
var ErrUndefined = errors.New("not defined")

// Error is a failed operation that keeps the driver's raw code, because the program must get
// exactly that number.
type Error struct {
	// Op is what was being done: "load module", "launch matmul".
	Op   string
	Code abi.Result
	// Detail says to what, and what to do next; it may be empty.
	Detail string
}

func (e *Error) Error() string {
	if e.Detail == "" {
		return fmt.Sprintf("%s: %s", e.Op, e.Code)
	}
	return fmt.Sprintf("%s: %s: %s", e.Op, e.Code, e.Detail)
}

// Unwrap lets errors.Is(err, abi.OutOfMemory) see the code.
func (e *Error) Unwrap() error { return e.Code }

// Code finds the driver's code in an error: abi.Success for nil, abi.Unknown where there is none.
func Code(err error) abi.Result {
	if err == nil {
		return abi.Success
	}
	var code abi.Result
	if errors.As(err, &code) {
		return code
	}
	return abi.Unknown
}
