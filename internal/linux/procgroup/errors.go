package procgroup

import (
	"errors"
	"fmt"
)

// Errors of groups. What happened to what stands in the text around them.
var (
	// ErrLimit means that a limit cannot be set; a LimitError says which.
	ErrLimit = errors.New("limit cannot be set")
	// ErrExists means that there is such a cgroup already.
	ErrExists = errors.New("the cgroup exists already; remove it, or choose another name")
	// ErrPath means that a path names no cgroup below the topmost one.
	ErrPath = errors.New("not the path of a cgroup, as phos/name")
	// ErrNotEmpty means that processes were left after the context had ended.
	ErrNotEmpty = errors.New("processes are left")
)

// LimitError says which limit cannot be set.
type LimitError struct {
	// Controller is the kernel's name of it, as "memory".
	Controller string `json:"controller"`
	// Limit is the value for the kernel, as "1048576".
	Limit string `json:"limit"`
	// Err is the reason.
	Err error `json:"-"`
}

func (e *LimitError) Error() string {
	return fmt.Sprintf("limit %s to %s: %v", e.Controller, e.Limit, e.Err)
}

// Unwrap returns ErrLimit and the reason.
func (e *LimitError) Unwrap() []error { return []error{ErrLimit, e.Err} }
