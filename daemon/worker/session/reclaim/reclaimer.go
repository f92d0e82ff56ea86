package reclaim

import "github.com/phos-gpu/phos/daemon/worker/session/core"

// Reclaimer gives freed memory back to the driver.
type Reclaimer struct {
	*core.Core
	state deferred
}

// New returns the reclaimer of a session.
func New(c *core.Core) *Reclaimer { return &Reclaimer{Core: c} }
