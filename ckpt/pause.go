package ckpt

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/phos-gpu/phos/ckpt/pool"
	"github.com/phos-gpu/phos/internal/linux/proc"
)

// retryBusy calls try until it returns no ErrBusy, or until the time is over.
func (c *checkpoint) retryBusy(ctx context.Context, until time.Time, try func(context.Context) error) error {
	for wait := minRetryDelay; ; wait = min(2*wait, maxRetryDelay) {
		err := try(ctx)
		if err == nil || !errors.Is(err, ErrBusy) {
			return err
		}
		c.steps.log.Debug("busy", "why", err)
		if time.Now().Add(wait).After(until) {
			return &DeadlineError{"the program did not become idle", c.order.Deadline, err}
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// pauseAll ends with all trees quiesced, frozen and cut, in as many attempts as that takes.
func (c *checkpoint) pauseAll(ctx context.Context) error {
	c.prestartAll(ctx)
	if err := c.meet(ctx, Arrival{At: PointReady}); err != nil {
		return err
	}
	c.firstPause = time.Now()
	until := c.firstPause.Add(c.order.Deadline)
	quiesce := func(ctx context.Context) error { return c.quiesce(ctx, until) }
	if c.order.Meet != nil {
		quiesce = func(ctx context.Context) error { return c.quiesceInTurns(ctx, until) }
	}
	cut := func(ctx context.Context) error { return c.cut(ctx, until) }
	return c.retryBusy(ctx, until, func(ctx context.Context) error {
		if err := c.moveCramped(); err != nil {
			return err
		}
		c.lastPause = time.Now()
		c.timing.reset()
		c.image.pressing.Store(true)
		defer c.image.pressing.Store(false)
		attempt := c.steps.branch()
		err := attempt.run(ctx,
			c.timing.step("quiesce", quiesce, c.openGates),
			step{"freeze", c.then(PointFrozen, c.timing.timed("freeze", c.freeze)), c.thaw},
			step{"cut", c.then(PointCut, c.timing.timed("cut", cut)), nil},
			c.timing.step("hold", c.hold, nil),
		)
		if err == nil {
			c.steps.join(attempt)
		}
		return err
	})
}

// quiesce closes all gates and waits until all calls are done.
func (c *checkpoint) quiesce(ctx context.Context, until time.Time) error {
	// A process may have begun to use a GPU after the precopy began.
	if err := c.beginDevices(ctx); err != nil {
		return err
	}
	if len(c.devices) > 0 {
		c.progress.phase("drain")
	}
	patience := max(time.Until(until), minRetryDelay)
	if len(c.devices) > 1 {
		// A busy program must not keep the others paused for long. Each try may take as long as all
		// tries before it.
		patience = min(patience, max(time.Since(c.firstPause), minDrain))
	}
	var work []func(context.Context) error
	for _, d := range c.devices {
		work = append(work, func(ctx context.Context) error {
			d.closed = true
			err := d.Quiesce(ctx, Drain{Deadline: patience})
			if errors.Is(err, ErrBusy) {
				d.closed = false // the device opened its gate again
			}
			return withPID(d, err)
		})
	}
	return pool.Run(ctx, work...)
}

// drainEach gives each program a turn to become idle. Those that were idle yield first; those that
// do not become idle, which busy names, keep their gates closed.
func (c *checkpoint) drainEach(ctx context.Context, turn time.Duration) (busy, err error) {
	failures := make([]error, len(c.devices))
	var all sync.WaitGroup
	for i, d := range c.devices {
		all.Go(func() {
			d.closed = true
			failure := d.Quiesce(ctx, Drain{turn, d.drained, true})
			d.drained = failure == nil
			failures[i] = withPID(d, failure)
		})
	}
	all.Wait()
	for _, failure := range failures {
		if errors.Is(failure, ErrBusy) {
			busy = failure
		} else if failure != nil {
			return nil, failure
		}
	}
	return busy, nil
}

// Times of turns.
const (
	// firstTurn is how long programs may take to become idle before others yield. Later turns are
	// longer.
	firstTurn = 20 * time.Millisecond
	// turnsTime is how long programs yield to each other before all go on for a while.
	turnsTime = 3 * time.Second
)

// quiesceInTurns is quiesce for programs of several checkpoints. Work of one may wait for calls of
// another one that is at a closed gate already, as in a collective. So programs that are idle
// yield, and make a call or a few, while those that are not keep their gates closed, until all are
// idle.
func (c *checkpoint) quiesceInTurns(ctx context.Context, until time.Time) error {
	if err := c.beginDevices(ctx); err != nil {
		return err
	}
	c.progress.phase("drain")
	for begun := time.Now(); ; {
		turn := min(max(time.Until(until), minRetryDelay), max(time.Since(c.firstPause)/8, firstTurn))
		busy, err := c.drainEach(ctx, turn)
		if err != nil {
			return err
		}
		err = c.meet(ctx, Arrival{At: PointQuiesced, Busy: busy})
		if !errors.Is(err, ErrBusy) || time.Since(begun) > turnsTime {
			return err
		}
		c.steps.log.Debug("programs of the cut yield", "busy", busy)
	}
}

// withPID adds the device's process to the error.
func withPID(d *device, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("pid %d: %w", d.Process(), err)
}

// openGates lets all programs make calls again.
func (c *checkpoint) openGates() {
	// The gates are opened even if the caller has cancelled the checkpoint.
	ctx, cancel := context.WithTimeout(context.Background(), openGateTimeout)
	defer cancel()
	var all sync.WaitGroup
	for _, d := range c.devices {
		if d.closed {
			all.Go(func() { c.openGate(ctx, d) })
		}
	}
	all.Wait()
}

// openGate opens the gate of one device, or else aborts the device.
func (c *checkpoint) openGate(ctx context.Context, d *device) {
	d.closed, d.drained = false, false
	if err := d.Resume(ctx); err != nil {
		c.steps.log.Error("open a gate", "pid", d.Process(), "error", err)
		// Aborting its checkpoint makes the worker open the gate by itself.
		c.abortDevice(d)
	}
}

// openGateTimeout is how long a worker may take to open a gate. A worker that hangs on a disk opens
// its gate when it is aborted.
const openGateTimeout = 3 * time.Second

func (c *checkpoint) freeze(ctx context.Context) error {
	for _, tree := range c.trees {
		frozen, err := c.order.CPU.Freeze(ctx, tree)
		if err != nil {
			return fmt.Errorf("freeze: %w", err)
		}
		c.frozen = append(c.frozen, frozen)
	}
	// Everything is stopped now: inspect again.
	trees, err := c.inspectAll(ctx, c.inspectFrozen)
	if err != nil {
		return err
	}
	if err := checkUsers(c.trees, trees); err != nil {
		return err
	}
	c.trees = trees
	if err := c.checkGrown(); err != nil {
		return err
	}
	// The process may be gone when the manifest is written.
	if c.groups, err = trees[0].Processes[0].Groups(); err != nil {
		return err
	}
	found, err := c.order.Devices(trees)
	if err != nil {
		return err
	}
	defer c.match(slices.Clone(found))
	if len(found) != len(c.devices) {
		return Busy(errors.New("a process started or stopped using a GPU"))
	}
	return nil
}

// inspectFrozen inspects a frozen tree by its root, or a root that is inside another root's tree.
func (c *checkpoint) inspectFrozen(ctx context.Context, root proc.Identity) (*Tree, error) {
	for i, tree := range c.trees {
		if tree.Processes[0].PID == root.PID {
			return c.frozen[i].Inspect(ctx)
		}
	}
	return c.order.CPU.Inspect(ctx, root)
}

// checkUsers returns an error if the root of a tree has become another user since the first
// inspection: what was prepared for the tree, as CRIU's directory, belongs to that user.
func checkUsers(before, now []*Tree) error {
	for _, tree := range now {
		root := tree.Processes[0]
		for _, earlier := range before {
			if was := earlier.Processes[0]; was.PID == root.PID && (was.UID != root.UID || was.GID != root.GID) {
				return fmt.Errorf("pid %d has become another user while it was saved: %d:%d, before %d:%d",
					root.PID, root.UID, root.GID, was.UID, was.GID)
			}
		}
	}
	return nil
}

func (c *checkpoint) thaw() {
	for _, frozen := range c.frozen {
		if err := frozen.Thaw(); err != nil {
			c.steps.log.Error("cannot thaw", "error", err)
		}
	}
	c.frozen = nil
}

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
	if now.At != PointReady && now.At != PointComplete { // others may have much more to copy or to write
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
		if c.order.Meet != nil && errors.Is(err, ErrProgramEnded) {
			err = Busy(err) // one of its children: the next attempt does without
		}
		if err != nil && !errors.Is(err, ErrBusy) {
			return err
		}
		return c.meet(ctx, Arrival{At: at, Busy: err})
	}
}

// awaitEnd waits until all images of the cut are complete, before programs end by it. If that
// fails, the image stays; the caller knows that it is of no use.
func (c *checkpoint) awaitEnd(ctx context.Context) error {
	if !c.order.Stop {
		return nil
	}
	return c.meet(ctx, Arrival{At: PointComplete, Saved: c.result()})
}
