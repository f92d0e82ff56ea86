package worker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/phos-gpu/phos/daemon/worker/session"
)

// errBusy means that something must end before the session can be saved; trying again may help.
var errBusy = errors.New("busy")

// busy is errBusy for a reason, which is all that it says.
type busy struct{ error }

func (busy) Is(target error) bool { return target == errBusy }

func (b busy) Unwrap() error { return b.error }

// stillBusy is what was going on when a wait ended. That the time was over needs not be said: who
// set it knows.
func stillBusy(ctx context.Context, what error) error {
	if cause := context.Cause(ctx); cause != nil && !errors.Is(cause, context.DeadlineExceeded) &&
		!errors.Is(what, cause) {
		what = fmt.Errorf("%w: %w", cause, what)
	}
	return busy{what}
}

// gate brings a session to rest, and lets it go on.
type gate struct {
	live    *link
	ring    interface{ Empty() bool }
	session interface {
		Quiet(ctx context.Context) error
		Capturing() bool
		HostFunctions() int
	}
}

// lookTime is between looks at what nobody announces.
const lookTime = 500 * time.Microsecond

// shut lets no new call in and returns when all those before are done. On an error the gate is
// open; it wraps errBusy when the deadline has passed.
func (g *gate) shut(ctx context.Context) error {
	for {
		// What captures a stream must be let in, or the capture never ends.
		if err := g.until(ctx, func() bool { return !g.session.Capturing() }); err != nil {
			return stillBusy(ctx, session.ErrCapturing)
		}
		g.live.file.SetGate(true)
		err := g.settle(ctx)
		if err == nil {
			return nil
		}
		g.open()
		if ctx.Err() != nil || !g.session.Capturing() {
			return err
		}
	}
}

// settle waits until everything that was posted is done. With the gate shut a thread that was past
// it may still post one call, also after this: whoever froze the program settles once more.
func (g *gate) settle(ctx context.Context) error {
	for {
		if err := g.until(ctx, g.ring.Empty); err != nil {
			return stillBusy(ctx, errors.New("calls are not taken yet"))
		}
		if err := g.session.Quiet(ctx); err != nil {
			return stillBusy(ctx, err)
		}
		if g.ring.Empty() {
			return nil
		}
	}
}

// settleFrozen is settle while the program stands still: what needs it to go on is known at once.
func (g *gate) settleFrozen(ctx context.Context) error {
	g.live.frozen.Store(true)
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	settled := make(chan error, 1)
	go func() { settled <- g.settle(ctx) }()
	look := time.NewTicker(lookTime)
	defer look.Stop()
	for {
		select {
		case err := <-settled:
			if err != nil {
				g.live.frozen.Store(false)
			}
			return err
		case <-look.C:
			switch {
			case g.live.slots.Serving():
				cancel(errors.New("a call waits for the program to copy"))
			case g.ring.Empty() && g.session.HostFunctions() > 0: // the ring may hold the end of one
				cancel(errors.New("a function of the program has not returned"))
			}
		}
	}
}

// thawed says that the program moves again.
func (g *gate) thawed() { g.live.frozen.Store(false) }

// open lets calls in again. It may be open already.
func (g *gate) open() { g.live.file.SetGate(false) }

// until waits for something that nobody announces.
func (g *gate) until(ctx context.Context, holds func() bool) error {
	if holds() {
		return nil
	}
	look := time.NewTicker(lookTime)
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
