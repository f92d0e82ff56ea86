package ckpt

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// busy marks an error as ErrBusy and keeps its text.
type busy struct{ error }

// Busy marks err as transient: it is ErrBusy then, with the same text.
func Busy(err error) error { return busy{err} }

// Is reports whether target is ErrBusy.
func (busy) Is(target error) bool { return target == ErrBusy }

// Unwrap returns the marked error.
func (b busy) Unwrap() error { return b.error }

// abandonDelay is how long runAbandonable waits after the context has ended.
const abandonDelay = time.Second

// errDiskHangs is returned when an operation blocks in the kernel and ignores its context.
var errDiskHangs = errors.New("the disk does not respond")

// runAbandonable calls do, which a disk may block. If do does not return after ctx has ended,
// runAbandonable returns and do goes on alone. So do must not touch anything that is used
// elsewhere.
func runAbandonable(ctx context.Context, do func(context.Context) error) error {
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
	case <-time.After(abandonDelay):
		return fmt.Errorf("%w: %w", errDiskHangs, context.Cause(ctx))
	}
}

// DeadlineError is returned when an operation exceeded its limit. It wraps
// context.DeadlineExceeded.
type DeadlineError struct {
	// What says what did not happen: "the program did not become idle".
	What  string
	Limit time.Duration
	// Err is the last error before the limit.
	Err error
}

func (e *DeadlineError) Error() string {
	return fmt.Sprintf(
		"%s within %v: %v (--idle-time gives it more time, and so does checkpoint.deadline_seconds in phosd.toml)",
		e.What,
		e.Limit,
		e.Err,
	)
}

// Unwrap returns the cause and context.DeadlineExceeded.
func (e *DeadlineError) Unwrap() []error { return []error{e.Err, context.DeadlineExceeded} }
