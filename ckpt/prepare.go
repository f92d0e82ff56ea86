package ckpt

import (
	"context"
	"errors"
	"time"
)

// prepareTimeout is how long the preparation of a pause may take.
const prepareTimeout = 10 * time.Second

// prepareAll prepares what would otherwise prolong the pause. What fails here is done during the
// pause.
func (c *checkpoint) prepareAll(ctx context.Context) {
	preparer, ok := c.order.CPU.(Preparer)
	if !ok {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, prepareTimeout)
	defer cancel()
	for i, work := range c.workDirs {
		drop, err := preparer.Prepare(ctx, c.trees[i], work.Descriptor())
		if err != nil {
			c.steps.log.Debug("prepare for the pause", "pid", c.trees[i].Processes[0].PID, "error", err)
			continue
		}
		c.prepared = append(c.prepared, drop)
	}
}

// dropPrepared releases what was prepared.
func (c *checkpoint) dropPrepared() error {
	var failures []error
	for _, drop := range c.prepared {
		failures = append(failures, drop())
	}
	c.prepared = nil
	return errors.Join(failures...)
}
