package watchdog

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/phos-gpu/phos/criu/repair"
	"github.com/phos-gpu/phos/internal/linux/freezer"
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
	if err := repairGroup(ctx, w.group, before); err != nil {
		return errors.Join(err, w.kill())
	}
	return nil
}

// repairGroup undoes what a killed CRIU has left in the processes of a group, which are frozen
// then. The error is ErrDamaged if that is not possible.
func repairGroup(ctx context.Context, group *freezer.Group, before *repair.Snapshot) error {
	err := leaveParasite(ctx, group, before)
	if err == nil {
		err = before.Repair()
	}
	if err != nil {
		return fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	return nil
}

// leaveParasite runs a group until no frozen process is inside CRIU's code.
func leaveParasite(ctx context.Context, group *freezer.Group, before *repair.Snapshot) error {
	for end := time.Now().Add(leaveTimeout); ; {
		if err := group.Stop(ctx); err != nil {
			return err
		}
		inside, err := before.Inside()
		if err != nil || !inside {
			return err
		}
		if time.Now().After(end) {
			return errors.New("a process does not leave CRIU's code")
		}
		if err := group.Resume(); err != nil {
			return err
		}
		time.Sleep(runTime) //nolint:forbidigo // whether they have left is visible only while they are frozen
	}
}
