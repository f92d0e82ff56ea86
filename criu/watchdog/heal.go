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
	settleTime = 10 * time.Second
	// runTime is how long they run at a time, to leave CRIU's code.
	recovery = 5 * time.Millisecond
	// leaveTimeout is how long they may take to leave it. A parasite whose connection is closed
	// returns at once.
	healTime = 2 * time.Second
)

// repair undoes what a killed CRIU has left in the processes of the tree. A tree that cannot be
// repaired is killed.
func (w *watchdog) heal(ctx context.Context, before *repair.Imprint) error {
	err := w.recover(ctx, before)
	if err == nil {
		err = before.Mend()
	}
	if err == nil {
		return nil
	}
	return errors.Join(fmt.Errorf("%w: %w", ErrDamaged, err), w.kill())
}

// leaveParasite runs the tree until no frozen process is inside CRIU's code.
func (w *watchdog) recover(ctx context.Context, before *repair.Imprint) error {
	for end := time.Now().Add(healTime); ; {
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
		if err := w.group.Start(); err != nil {
			return err
		}
		time.Sleep(recovery) // whether they have left is visible only while they are frozen
	}
}
