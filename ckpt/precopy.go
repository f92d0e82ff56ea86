package ckpt

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/phos-gpu/phos/ckpt/pool"
)

const (
	minRetryDelay = 5 * time.Millisecond
	minDrain      = 100 * time.Millisecond
	maxRetryDelay = 500 * time.Millisecond
	// dumpSecondBytes is a write speed that every disk reaches. CRIU's deadline grows by it.
	dumpSecondBytes = 16 << 20
	// minPrecopyBytes is the least memory for which a precopy pays.
	minPrecopyBytes = 8 << 20
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
	if !c.precopies(tree) {
		return nil
	}
	limited, cancel := context.WithTimeout(ctx, c.dumpTime(tree))
	defer cancel()
	done, err := c.order.CPU.Precopy(limited, tree, work.Descriptor(), c.order.Track)
	c.dropLater(done.Drop)
	if done.Kept {
		c.setTracked(tree)
	}
	switch {
	case err == nil:
		return nil
	case errors.Is(err, ErrTracked):
		c.notice(fmt.Sprintf("pid %d: %v; its memory is copied while it is paused", tree.Processes[0].PID, ErrTracked))
		return nil
	case errors.Is(err, ErrUntracked):
		if c.order.Untracked != nil {
			c.order.Untracked()
		}
		return nil
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	c.steps.log.Warn("precopy of process memory failed", "pid", tree.Processes[0].PID, "error", err)
	return emptyDirectory(work.Descriptor(), false)
}

// setTracked says that what a tree writes is tracked from its precopy to the end of the pause, also
// when a dump fails.
func (c *checkpoint) setTracked(tree *Tree) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.tracked[tree.Processes[0].PID] = true
}

// isTracked reports whether setTracked was called.
func (c *checkpoint) isTracked(tree *Tree) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.tracked[tree.Processes[0].PID]
}

// precopies reports whether the memory of a tree is copied before the pause.
func (c *checkpoint) precopies(tree *Tree) bool {
	return !c.order.Options.StopTheWorld && tree.ResidentBytes() >= minPrecopyBytes
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
func (c *checkpoint) match(found []GPU) {
	known := c.devices
	c.devices = nil
	for _, each := range found {
		at := slices.IndexFunc(known, func(d *device) bool { return d.Process() == each.Process() })
		if at < 0 {
			c.devices = append(c.devices, &device{GPU: each, number: each.Process()})
			continue
		}
		c.devices = append(c.devices, known[at])
		known = slices.Delete(known, at, at+1)
		if each != c.devices[len(c.devices)-1].GPU {
			each.Abort() // the same device, found again
		}
	}
	for _, gone := range known {
		c.abortDevice(gone)
	}
}
