package criu

import (
	"context"
	"fmt"

	"github.com/phos-gpu/phos/ckpt"
)

// Learn finds out what Warnings reports. It may take a while, because CRIU probes the kernel.
func (c *CPU) Learn(ctx context.Context) {
	if _, err := c.version.get(ctx, c.options.Program); err == nil {
		c.trackedByOthers(ctx)
		c.CanLoad(ctx, 0)
		_ = c.checkTracking(ctx) // the first checkpoint asks again, and reports an error
	}
}

// Warnings says what is missing on this host: a root directory in which CRIU can work, a usable
// CRIU, or the tracking of written pages. It does not wait for Learn, and does not report what is
// not known yet.
func (c *CPU) Warnings(ctx context.Context) []string {
	if inChroot() {
		return []string{fmt.Sprintf("no checkpoints and restores: %s: %s", chrooted.Reason, chrooted.Remedy)}
	}
	if _, err := c.version.get(ctx, c.options.Program); err != nil {
		return []string{fmt.Sprintf("no checkpoints and restores: %v: %s", err, remedy())}
	}
	if !c.tracking.mu.TryLock() {
		return nil
	}
	defer c.tracking.mu.Unlock()
	if c.tracking.known == nil || *c.tracking.known || c.trackWritten.possible() {
		return nil
	}
	return []string{fmt.Sprintf("%v (Linux 6.7 and a CRIU that scripts/criu.sh has built do, or "+
		"CONFIG_MEM_SOFT_DIRTY): a checkpoint copies all memory of the processes during its pause; GPU memory "+
		"is not affected", ckpt.ErrUntracked)}
}
