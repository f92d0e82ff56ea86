package gpu

import (
	"errors"
	"fmt"

	"github.com/phos-gpu/phos/hijack/abi"
)

// ErrUndefined is in the error chain when a module uses a name that it does not define. The module
// cannot be loaded alone; linked with others it may load.
var ErrUndefined = errors.New("not defined")

// Error is a failed operation. It keeps the driver's raw code, because the program must get exactly
// that number.
type Error struct {
	// Op is the operation that failed: "load module", "launch matmul".
	Op   string
	Code abi.Result
	// Detail says what it failed on, and what to do next; it may be empty.
	Detail string
}

// Errorf returns an Error with a formatted detail.
func Errorf(op string, code abi.Result, format string, args ...any) error {
	return &Error{Op: op, Code: code, Detail: fmt.Sprintf(format, args...)}
}

func (e *Error) Error() string {
	if e.Detail == "" {
		return fmt.Sprintf("%s: %s", e.Op, e.Code)
	}
	return fmt.Sprintf("%s: %s: %s", e.Op, e.Code, e.Detail)
}

// Unwrap returns the code, for errors.Is(err, abi.OutOfMemory).
func (e *Error) Unwrap() error { return e.Code }

// Code returns the driver's code in an error: abi.Success for nil, abi.Unknown if the chain has
// none.
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
