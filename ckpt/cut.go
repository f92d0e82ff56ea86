package ckpt

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/phos-gpu/phos/ckpt/image"
	"github.com/phos-gpu/phos/ckpt/pool"
)

// device is a GPU and its state.
type device struct {
	GPU
	number int
	begun  bool
	// closed is set while the device's gate is closed, drained if no call is left, either.
	closed, drained bool
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

// cut saves dirty memory, the processes and the files that they write, all in parallel.
func (c *checkpoint) cut(ctx context.Context, until time.Time) error {
	c.progress.phase("cut")
	c.files = nil
	work := []func(context.Context) error{c.timing.timed("cut.files", c.saveFiles)}
	for _, d := range c.devices {
		work = append(work, c.timing.timed("cut.gpu", func(ctx context.Context) error {
			return withPID(d, d.Cut(ctx, max(time.Until(until), minRetryDelay)))
		}))
	}
	for i, work1 := range c.workDirs {
		work = append(work, c.timing.timed("cut.processes", func(ctx context.Context) error {
			return c.checkFull(i, c.dump(ctx, c.frozen[i], work1, c.trees[i]))
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
	if c.dumped {
		// A failed dump has reset CRIU's own dirty tracking, but not another's.
		if err := emptyDirectory(work.Descriptor(), c.isTracked(tree)); err != nil {
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
	if dropped := c.dropPrestarted(); dropped != nil {
		c.steps.log.Error("cannot end the CRIU that was started before the pause", "error", dropped)
	}
	return err
}

// finish makes the workers write what they had only copied to buffers.
func (c *checkpoint) finish(ctx context.Context) error {
	c.progress.phase("write")
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

// abortDevices undoes what the checkpoint has done to all GPU halves. It may be called again.
func (c *checkpoint) abortDevices() {
	for _, d := range c.devices {
		d.Abort()
	}
}
