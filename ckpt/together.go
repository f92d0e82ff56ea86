package ckpt

import (
	"context"
	"errors"
	"fmt"
)

// Point is where checkpoints that make one cut wait for each other.
type Point string

// The points, in their order. At the points between ready and complete a checkpoint may be told to
// try again: it undoes what it has done since the point ready.
const (
	// PointReady is before the pause: what can be copied in advance is copied.
	PointReady Point = "ready"
	// PointQuiesced means that the gates are closed, and no call or work is left.
	PointQuiesced Point = "quiesced"
	// PointFrozen means that the processes stand still, and were inspected once more.
	PointFrozen Point = "frozen"
	// PointCut means that all state is saved or guarded: the programs may go on.
	PointCut Point = "cut"
	// PointComplete means that the image is complete, and the programs, which end with it, are still
	// frozen. Checkpoints after which programs go on do not wait there.
	PointComplete Point = "complete"
)

// Arrival is what a checkpoint says at a point.
type Arrival struct {
	At Point
	// Busy is why it has to try again; nil: it can go on.
	Busy error
	// Saved is what the image is, at the point complete.
	Saved *CheckpointResult
}

// meet waits at a point until the other checkpoints of the cut are there. It returns ErrBusy if all
// have to try again.
func (c *checkpoint) meet(ctx context.Context, now Arrival) error {
	if c.order.Meet == nil {
		return now.Busy
	}
	if now.At != PointReady { // others may have much more to copy
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, c.order.Deadline)
		defer cancel()
	}
	if err := c.order.Meet(ctx, now); err != nil && !errors.Is(err, ErrBusy) {
		return fmt.Errorf("wait for the others of the cut (%s): %w", now.At, err)
	} else if err != nil || now.Busy != nil {
		return errors.Join(now.Busy, err)
	}
	return nil
}

// then returns work after which the checkpoint waits at a point. If the work fails for good, the
// others learn that by the end of this checkpoint.
func (c *checkpoint) then(at Point, do func(context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error {
		err := do(ctx)
		if err != nil && !errors.Is(err, ErrBusy) {
			return err
		}
		return c.meet(ctx, Arrival{At: at, Busy: err})
	}
}

// awaitEnd waits until all images of the cut are complete, before programs end by it. If that
// fails, the image stays; who has asked for the cut knows that it is of no use.
func (c *checkpoint) awaitEnd(ctx context.Context) error {
	if !c.order.Stop {
		return nil
	}
	return c.meet(ctx, Arrival{At: PointComplete, Saved: c.result()})
}
