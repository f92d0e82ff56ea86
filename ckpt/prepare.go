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
func (v *checkpoint) prepareAll(ctx context.Context) {
	preparer, offers := v.order.CPU.(Preparer)
	if !offers {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, prepareTimeout)
	defer cancel()
	for i, work := range v.work {
		drop, err := preparer.Prepare(ctx, v.trees[i], work.Descriptor())
		if err != nil {
			v.steps.log.Debug("prepare for the pause", "pid", v.trees[i].Processes[0].PID, "error", err)
			continue
		}
		v.prepared = append(v.prepared, drop)
	}
}

// dropPrepared releases what was prepared.
func (v *checkpoint) dropPrepared() error {
	var failures []error
	for _, drop := range v.prepared {
		failures = append(failures, drop())
	}
	v.prepared = nil
	return errors.Join(failures...)
}
