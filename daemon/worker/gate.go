package worker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/phos-gpu/phos/daemon/worker/session"
)

// errBusy is returned when something must end before the session can be saved. A retry may succeed.
var errBusy = errors.New("busy")

// busyError is errBusy with a reason. Its text is the reason only.
type busyError struct{ error }

func (busyError) Is(target error) bool { return target == errBusy }

func (b busyError) Unwrap() error { return b.error }

// stillBusy returns a busyError for what was still going on when a wait ended. It adds the
// context's cause unless that is the deadline, which the caller knows.
func stillBusy(ctx context.Context, what error) error {
	if cause := context.Cause(ctx); cause != nil && !errors.Is(cause, context.DeadlineExceeded) &&
		!errors.Is(what, cause) {
		what = fmt.Errorf("%w: %w", cause, what)
	}
	return busyError{what}
}

// errHolding is returned while the program replaces private memory by memory that kernels reach: it
// has a userfaultfd open, which no checkpoint can save.
var errHolding = errors.New("private memory is being registered for kernels")

// gate quiesces a session and resumes it.
type gate struct {
	live *link
	ring interface {
		Empty() bool
		Posted() uint64
	}
	session interface {
		Quiet(ctx context.Context) error
		Capturing() bool
		HostFunctions() int
	}
}

// pollTime is the interval at which conditions are polled that have no notification: the ring, the
// slots and the host functions change in memory shared with the program.
const pollTime = 500 * time.Microsecond

// Times of yield.
const (
	// yieldTime is how long it waits for a call, lookTime the interval at which it looks.
	yieldTime = 10 * time.Millisecond
	lookTime  = 20 * time.Microsecond
)

// yield opens the gate until the program has made a call, or has made none for a while. Work of
// another program may wait for that call; after more calls, this program would wait for the other
// one.
func (g *gate) yield(ctx context.Context) {
	before := g.ring.Posted()
	g.open()
	for begun := time.Now(); g.ring.Posted() == before && ctx.Err() == nil && time.Since(begun) < yieldTime; {
		time.Sleep(lookTime) //nolint:forbidigo // the program does not wake the worker, which spins
	}
}

// quiesce closes the gate and returns when all earlier calls are done. If it fails the gate is
// open, unless it stays closed; the error wraps errBusy if the deadline has passed.
func (g *gate) quiesce(ctx context.Context, stays bool) error {
	for {
		// The gate stays open during a stream capture, or the capture would never end.
		if g.session.Capturing() {
			g.open()
		}
		if err := g.poll(ctx, func() bool { return !g.session.Capturing() }); err != nil {
			return stillBusy(ctx, session.ErrCapturing)
		}
		g.live.file.SetGate(true)
		err := g.drain(ctx)
		if err == nil || stays && ctx.Err() != nil && !g.session.Capturing() {
			return err
		}
		g.open()
		if ctx.Err() != nil || !g.session.Capturing() {
			return err
		}
	}
}

// drain waits until all posted calls are done. A thread that passed the gate before it was closed
// may still post one call, even after drain returns. So the caller drains again once the program is
// frozen.
func (g *gate) drain(ctx context.Context) error {
	if err := g.poll(ctx, func() bool { return !g.live.file.Holding() }); err != nil {
		return stillBusy(ctx, errHolding)
	}
	for {
		if err := g.poll(ctx, g.ring.Empty); err != nil {
			return stillBusy(ctx, errors.New("calls are still in the ring"))
		}
		if err := g.session.Quiet(ctx); err != nil {
			return stillBusy(ctx, err)
		}
		if g.ring.Empty() {
			return nil
		}
	}
}

// drainFrozen is drain for a frozen program. It fails at once if a call needs the program to run.
func (g *gate) drainFrozen(ctx context.Context) error {
	g.live.frozen.Store(true)
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	drained := make(chan error, 1)
	go func() { drained <- g.drain(ctx) }()
	look := time.NewTicker(pollTime)
	defer look.Stop()
	for {
		select {
		case err := <-drained:
			if err != nil {
				g.live.frozen.Store(false)
			}
			return err
		case <-look.C:
			switch {
			case g.live.file.Holding():
				cancel(errHolding)
			case g.live.slots.Serving():
				cancel(errors.New("a call waits for the program to copy"))
			case g.ring.Empty() && g.session.HostFunctions() > 0: // the ring may hold the end of one
				cancel(errors.New("a host function of the program has not returned"))
			}
		}
	}
}

// thawed records that the program runs again.
func (g *gate) thawed() { g.live.frozen.Store(false) }

// open opens the gate. It may be open already.
func (g *gate) open() { g.live.file.SetGate(false) }

// poll waits until a condition holds. It polls because the condition is in memory that the program
// writes without a wake-up.
func (g *gate) poll(ctx context.Context, holds func() bool) error {
	if holds() {
		return nil
	}
	look := time.NewTicker(pollTime)
	defer look.Stop()
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-look.C:
			if holds() {
				return nil
			}
		}
	}
}
