package ckpt

import (
	"context"
	"errors"
	"time"
)

// prestartTimeout is how long CRIU may take to start before a pause.
const prestartTimeout = 10 * time.Second

// prestartAll starts CRIU before the pause, which would be longer otherwise. What fails here is
// done during the pause.
func (c *checkpoint) prestartAll(ctx context.Context) {
	prestarter, ok := c.order.CPU.(Prestarter)
	if !ok {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, prestartTimeout)
	defer cancel()
	for i, work := range c.workDirs {
		drop, err := prestarter.Prestart(ctx, c.trees[i], work.Descriptor())
		if err != nil {
			c.steps.log.Debug("start CRIU before the pause", "pid", c.trees[i].Processes[0].PID, "error", err)
			continue
		}
		c.dropLater(drop)
	}
}

// dropLater remembers what ends something that was started before the pause; it may be nil.
func (c *checkpoint) dropLater(drop func() error) {
	if drop == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.prestarted = append(c.prestarted, drop)
}

// dropPrestarted ends what prestartAll and precopy started.
func (c *checkpoint) dropPrestarted() error {
	c.mu.Lock()
	all := c.prestarted
	c.prestarted = nil
	c.mu.Unlock()
	var failures []error
	for _, drop := range all {
		failures = append(failures, drop())
	}
	return errors.Join(failures...)
}
