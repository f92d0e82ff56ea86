package fatbin

import (
	"errors"
	"fmt"

	"github.com/phos-gpu/phos/hijack/abi"
)

// Reasons for refusing an image; every error of Parse is an *Error that wraps one of them.
var (
	ErrUnknownFormat = errors.New("neither a fat binary, a cubin nor PTX text")
	ErrVersion       = errors.New("unknown container version")
	ErrTruncated     = errors.New("image ends too early")
	ErrTooLarge      = errors.New("image exceeds a limit")
	ErrCompression   = errors.New("compressed data is damaged")
)

// Error is a refused image.
type Error struct {
	// Offset is the position of the error in the image.
	Offset uint64
	// Reason is one of the sentinels above.
	Reason error
	// Detail says more; it may be empty.
	Detail string
}

func (e *Error) Error() string {
	if e.Detail == "" {
		return fmt.Sprintf("code image, offset %d: %s", e.Offset, e.Reason)
	}
	return fmt.Sprintf("code image, offset %d: %s: %s", e.Offset, e.Reason, e.Detail)
}

// Unwrap gives errors.Is the reason and the driver's code.
func (e *Error) Unwrap() []error { return []error{e.Reason, abi.InvalidImage} }

// refuse returns an Error.
func refuse(offset uint64, reason error, detail string, args ...any) error {
	return &Error{Offset: offset, Reason: reason, Detail: fmt.Sprintf(detail, args...)}
}
