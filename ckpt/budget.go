package ckpt

import (
	"errors"
	"fmt"
	"math"

	"golang.org/x/sys/unix"
)

const (
	// fixedBytes is the memory that phosd and its helpers take for any checkpoint: CRIU, the
	// watchdog, and what they read of the image.
	fixedBytes = 24 << 20
	// deviceBytes is what a worker takes beside its copies of memory: the saved session and write
	// buffers.
	deviceBytes = 24 << 20
)

// budget returns the rest of the memory that the checkpoint may take.
func (c *checkpoint) budget() uint64 {
	left := c.order.Options.BudgetBytes
	for _, work := range c.workDirs {
		left -= min(left, work.MemoryBytes())
	}
	return left
}

// share returns a device's part of the memory for copies. At least half of a small budget is for
// copies: without copies nothing can be saved while the program runs.
func (c *checkpoint) share(devices int) uint64 {
	left, others := c.budget(), uint64(fixedBytes+devices*deviceBytes)
	return max(left/2, left-min(left, others)) / uint64(devices)
}

// fullBytes is what is free at most on a file system that is full for CRIU.
const fullBytes = 256 << 10

// slackPart is which part of its estimate a tree may have grown: dumpBytes is an upper bound.
const slackPart = 16

// cramp marks a work directory in memory as too small. The attempt is retried on a disk.
func (c *checkpoint) cramp(work int, why error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cramped[work] = true
	return Busy(why)
}

// checkGrown returns ErrBusy if a frozen tree has outgrown its work directory since it was
// inspected.
func (c *checkpoint) checkGrown() error {
	for i, work := range c.workDirs {
		if i >= len(c.trees) {
			break
		}
		has, needs := work.MemoryBytes(), c.workBytes(c.trees[i])
		if has > 0 && needs > has+has/slackPart {
			return c.cramp(i, fmt.Errorf("pid %d has grown: %d bytes, room for %d",
				c.trees[i].Processes[0].PID, needs, has))
		}
	}
	return nil
}

// checkFull turns the error of a dump into ErrBusy if the dump has filled its work directory in
// memory.
func (c *checkpoint) checkFull(number int, err error) error {
	work := c.workDirs[number]
	if err == nil || work.MemoryBytes() == 0 {
		return err
	}
	var at unix.Statfs_t
	if unix.Fstatfs(int(work.Descriptor().Fd()), &at) != nil || at.Bavail*uint64(at.Bsize) > fullBytes {
		return err
	}
	return c.cramp(number, err)
}

// moveCramped replaces the work directories that are too small by ones on a disk. What was written
// in advance is lost, there and elsewhere, because it is no longer tracked what has changed since:
// the dump writes everything.
func (c *checkpoint) moveCramped() error {
	c.mu.Lock()
	cramped := c.cramped
	c.cramped = make(map[int]bool)
	c.mu.Unlock()
	if len(cramped) == 0 {
		return nil
	}
	var failures []error
	for number, work := range c.workDirs {
		if !cramped[number] {
			failures = append(failures, emptyDirectory(work.Descriptor(), false))
		}
	}
	failures = append(failures, c.dropPrestarted())
	for number := range cramped {
		root := c.trees[number].Processes[0]
		work, err := c.order.Work(math.MaxInt64, root.UID, root.GID)
		if err != nil {
			return errors.Join(append(failures, err)...)
		}
		failures = append(failures, c.workDirs[number].Remove())
		c.workDirs[number] = work
	}
	return errors.Join(failures...)
}
