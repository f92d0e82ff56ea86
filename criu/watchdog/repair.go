package watchdog

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/phos-gpu/phos/criu/repair"
)

const (
	// refreezeTime is how long it may take until processes that CRIU left are repaired and frozen.
	refreezeTime = 10 * time.Second
	// runTime is how long they run at a time, to leave CRIU's code.
	runTime = 5 * time.Millisecond
	// leaveTimeout is how long they may take to leave it. A parasite whose connection is closed
	// returns at once.
	leaveTimeout = 2 * time.Second
)

// repair undoes what a killed CRIU has left in the processes of the tree. A tree that cannot be
// repaired is killed.
func (w *watchdog) repair(ctx context.Context, before *repair.Snapshot) error {
	err := w.leaveParasite(ctx, before)
	if err == nil {
		err = before.Repair()
	}
	if err == nil {
		return nil
	}
	return errors.Join(fmt.Errorf("%w: %w", ErrDamaged, err), w.kill())
}

// leaveParasite runs the tree until no frozen process is inside CRIU's code.
func (w *watchdog) leaveParasite(ctx context.Context, before *repair.Snapshot) error {
	for end := time.Now().Add(leaveTimeout); ; {
		if err := w.group.Stop(ctx); err != nil {
			return err
		}
		inside, err := before.Inside()
		if err != nil || !inside {
			return err
		}
		if time.Now().After(end) {
			return errors.New("a process does not leave CRIU's code")
		}
		if err := w.group.Resume(); err != nil {
			return err
		}
		time.Sleep(runTime) //nolint:forbidigo // whether they have left is visible only while they are frozen
	}
}
