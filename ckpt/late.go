package ckpt

import (
	"context"
	"fmt"
	"time"
)

// busy marks an error as ErrBusy, and says nothing more than it does.
type busy struct{ error }

// Busy makes an error one that may pass: it is ErrBusy then, with the same text.
func Busy(err error) error { return busy{err} }

// Is reports that the error is ErrBusy too.
func (busy) Is(target error) bool { return target == ErrBusy }

// Unwrap is the error that was marked.
func (b busy) Unwrap() error { return b.error }

// LateError means that something took longer than it was given. It is context.DeadlineExceeded too.
type LateError struct {
	// What did not happen: "the program did not come to rest".
	What  string
	Limit time.Duration
	// Err is how far it was.
	Err error
}

func (e *LateError) Error() string {
	return fmt.Sprintf("%s within %v: %v (--deadline gives it more time, and so does checkpoint.deadline_seconds in phosd.toml)", e.What, e.Limit, e.Err)
}

// Unwrap makes the error what it comes from, and context.DeadlineExceeded.
func (e *LateError) Unwrap() []error { return []error{e.Err, context.DeadlineExceeded} }
