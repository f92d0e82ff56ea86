package ckpt

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/phos-gpu/phos/ckpt/image"
	"github.com/phos-gpu/phos/ckpt/pool"
)

// device is a Device and its state.
type device struct {
	Device
	number int
	begun  bool
	// closed is set while the device's gate is closed.
	closed bool
	// pack is the file that the device writes; it is set by Begin.
	pack *os.File
}

// abortDevice aborts a device and drops its pack. The device may begin again.
func (c *checkpoint) abortDevice(d *device) {
	d.Abort()
	d.begun = false
	if d.pack == nil {
		return
	}
	if err := c.image.dropPack(d.pack); err != nil {
		c.steps.log.Error("cannot drop a pack", "pid", d.Process(), "error", err)
	}
	d.pack = nil
}

const (
	minRetryDelay = 5 * time.Millisecond
	minDrain      = 100 * time.Millisecond
	maxRetryDelay = 500 * time.Millisecond
	// dumpSecondBytes is a write speed that every disk reaches. CRIU's deadline grows by it.
	dumpSecondBytes = 16 << 20
	// minPrecopyBytes is the least memory for which a precopy pays: it stops each process once
	// more, for a moment.
	minPrecopyBytes = 64 << 20
)

// precopy copies GPU and CPU memory while the programs run.
func (c *checkpoint) precopy(ctx context.Context) error {
	work := []func(context.Context) error{func(ctx context.Context) error {
		return c.retryBusy(ctx, time.Now().Add(c.order.Deadline), c.beginDevices)
	}}
	for i := range c.workDirs {
		work = append(work, func(ctx context.Context) error { return c.precopyTree(ctx, c.trees[i], c.workDirs[i]) })
	}
	return pool.Run(ctx, work...)
}

// precopyTree copies the memory of processes before the pause, if that shortens the pause. A
// failure only makes the pause longer.
func (c *checkpoint) precopyTree(ctx context.Context, tree *Tree, work WorkDir) error {
	if c.order.Options.StopTheWorld || residentBytes(tree) < minPrecopyBytes {
		return nil
	}
	limited, cancel := context.WithTimeout(ctx, c.dumpTime(tree))
	defer cancel()
	err := c.order.CPU.Precopy(limited, tree, work.Descriptor())
	if errors.Is(err, ErrUntracked) && c.order.Untracked != nil {
		c.order.Untracked()
	}
	if err == nil || errors.Is(err, ErrUntracked) {
		return nil
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	c.steps.log.Warn("precopy of process memory failed", "pid", tree.Processes[0].PID, "error", err)
	return emptyDirectory(work.Descriptor())
}

// beginDevices begins the devices of all processes that use a GPU now, except those already begun.
func (c *checkpoint) beginDevices(ctx context.Context) error {
	found, err := c.order.Devices(c.trees)
	if err != nil {
		return err
	}
	c.match(found)
	options := c.order.Options
	options.StopTheWorld = options.StopTheWorld || len(c.devices) == 0
	if len(c.devices) > 0 {
		options.BudgetBytes = c.share(len(c.devices))
		options.BandwidthBytes /= uint64(len(c.devices))
	}
	var work []func(context.Context) error
	for _, d := range c.devices {
		if d.begun {
			continue
		}
		mine := options
		mine.Progress = func(now Step) { c.progress.part(d.number, now) }
		work = append(work, func(ctx context.Context) error {
			packs, err := c.image.packs()
			if err != nil {
				return err
			}
			d.pack = packs[0]
			if err := d.Begin(ctx, packs, mine); err != nil {
				c.abortDevice(d)
				return withPID(d, err)
			}
			d.begun = true
			return nil
		})
	}
	return pool.Run(ctx, work...)
}

// match replaces c.devices by found. Devices that are already known keep their state; those that
// are gone are aborted.
func (c *checkpoint) match(found []Device) {
	known := c.devices
	c.devices = nil
	for _, each := range found {
		at := slices.IndexFunc(known, func(d *device) bool { return d.Process() == each.Process() })
		if at < 0 {
			c.devices = append(c.devices, &device{Device: each, number: each.Process()})
			continue
		}
		c.devices = append(c.devices, known[at])
		known = slices.Delete(known, at, at+1)
		if each != c.devices[len(c.devices)-1].Device {
			each.Abort() // the same device, found again
		}
	}
	for _, gone := range known {
		c.abortDevice(gone)
	}
}

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

// pauseAll ends with all trees quiesced, frozen and cut.
func (c *checkpoint) pauseAll(ctx context.Context) error {
	c.prepareAll(ctx)
	c.firstPause = time.Now()
	until := c.firstPause.Add(c.order.Deadline)
	return c.retryBusy(ctx, until, func(ctx context.Context) error {
		c.lastPause = time.Now()
		attempt := c.steps.branch()
		err := attempt.run(ctx,
			step{"quiesce", func(ctx context.Context) error { return c.quiesce(ctx, until) }, c.openGates},
			step{"freeze", c.freeze, c.thaw},
			step{"cut", func(ctx context.Context) error { return c.cut(ctx, until) }, nil},
			step{"hold", c.hold, nil},
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
	c.progress.phase(Step{Phase: "drain"})
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
			err := d.Quiesce(ctx, patience)
			if errors.Is(err, ErrBusy) {
				d.closed = false // the device opened its gate again
			}
			return withPID(d, err)
		})
	}
	return pool.Run(ctx, work...)
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
	d.closed = false
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
	trees, err := c.inspectAll(ctx)
	if err != nil {
		return err
	}
	c.trees = trees
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

func (c *checkpoint) thaw() {
	for _, frozen := range c.frozen {
		if err := frozen.Thaw(); err != nil {
			c.steps.log.Error("cannot thaw", "error", err)
		}
	}
	c.frozen = nil
}

// cut saves dirty memory, the processes and the files that they write, all in parallel.
func (c *checkpoint) cut(ctx context.Context, until time.Time) error {
	c.progress.phase(Step{Phase: "cut"})
	c.files = nil
	c.timing.reset()
	work := []func(context.Context) error{c.timing.timed("files", c.saveFiles)}
	for _, d := range c.devices {
		work = append(work, c.timing.timed("gpu", func(ctx context.Context) error {
			return withPID(d, d.Cut(ctx, max(time.Until(until), minRetryDelay)))
		}))
	}
	for i, work1 := range c.workDirs {
		work = append(work, c.timing.timed("processes", func(ctx context.Context) error {
			return c.dump(ctx, c.frozen[i], work1, c.trees[i])
		}))
	}
	err := pool.Run(ctx, work...)
	c.dumped = true
	return err
}

// dump runs CRIU to write the processes of one tree.
func (c *checkpoint) dump(ctx context.Context, frozen Frozen, work WorkDir, tree *Tree) error {
	limit := c.dumpTime(tree)
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	if c.dumped { // the failed dump has reset CRIU's dirty tracking, too
		if err := emptyDirectory(work.Descriptor()); err != nil {
			return err
		}
	}
	err := frozen.Dump(limited, work.Descriptor())
	switch {
	case err == nil:
		return nil
	case ctx.Err() == nil && (limited.Err() != nil || errors.Is(err, context.DeadlineExceeded)):
		return &DeadlineError{
			fmt.Sprintf("the processes of pid %d were not written", tree.Processes[0].PID),
			limit,
			err,
		}
	}
	return fmt.Errorf("dump: %w", err)
}

// hold calls the Hold of the options, with the deadline.
func (c *checkpoint) hold(ctx context.Context) error {
	if c.order.Hold == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, c.order.Deadline)
	defer cancel()
	return c.order.Hold(ctx)
}

// resumeAll thaws the trees and opens the gates, unless the programs end with this checkpoint.
func (c *checkpoint) resumeAll(ctx context.Context) error {
	if c.order.Stop {
		return nil
	}
	for len(c.frozen) > 0 {
		if err := c.frozen[0].Thaw(); err != nil {
			return fmt.Errorf("thaw: %w", err)
		}
		c.frozen = c.frozen[1:]
	}
	var work []func(context.Context) error
	for _, d := range c.devices {
		work = append(work, func(ctx context.Context) error {
			err := d.Resume(ctx)
			d.closed = err != nil
			return withPID(d, err)
		})
	}
	err := pool.Run(ctx, work...)
	c.pause = time.Since(c.lastPause)
	if dropped := c.dropPrepared(); dropped != nil {
		c.steps.log.Error("cannot release what was prepared for the pause", "error", dropped)
	}
	return err
}

// finish makes the workers write what they had only copied to buffers.
func (c *checkpoint) finish(ctx context.Context) error {
	c.progress.phase(Step{Phase: "write"})
	halves := make([]image.GPUHalf, len(c.devices))
	var work []func(context.Context) error
	for i, d := range c.devices {
		work = append(work, func(ctx context.Context) (err error) {
			if halves[i], err = d.Finish(ctx); err == nil {
				// The worker is done: the gate is open, and the pack belongs to the transaction.
				d.begun, d.closed, d.pack = false, false, nil
			}
			return withPID(d, err)
		})
	}
	if err := pool.Run(ctx, work...); err != nil {
		return err
	}
	for i, d := range c.devices {
		c.halves[d.Process()] = halves[i]
	}
	return nil
}

func (c *checkpoint) abortDevices() {
	for _, d := range c.devices {
		d.Abort()
	}
}
