package ckpt

import (
	"context"
	"errors"
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

// hangTime is how much longer than it may take a disk is waited for that does not answer at all.
const hangTime = time.Second

// errHangs means that something waits in the kernel, where no context reaches it.
var errHangs = errors.New("the disk does not answer")

// leaving does something that a disk may hold up. When the context has ended and that does not
// return all the same, it is left alone: it must touch nothing then that anybody uses.
func leaving(ctx context.Context, do func(context.Context) error) error {
	ended := make(chan error, 1)
	go func() { ended <- do(ctx) }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	select {
	case err := <-ended:
		return err
	case <-time.After(hangTime):
		return fmt.Errorf("%w: %w", errHangs, context.Cause(ctx))
	}
}

// LateError means that something took longer than it was given. It is context.DeadlineExceeded too.
type LateError struct {
	// What did not happen: "the program did not come to rest".
	What  string
	Limit time.Duration
	// Err is how far it was.
	Err error
}

func (e *LateError) Error() string {
	return fmt.Sprintf(
		"%s within %v: %v (--deadline gives it more time, and so does checkpoint.deadline_seconds in phosd.toml)",
		e.What,
		e.Limit,
		e.Err,
	)
}

// Unwrap makes the error what it comes from, and context.DeadlineExceeded.
func (e *LateError) Unwrap() []error { return []error{e.Err, context.DeadlineExceeded} }
