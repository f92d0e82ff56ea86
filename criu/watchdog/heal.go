package watchdog

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/phos-gpu/phos/criu/repair"
)

const (
	// settleTime is how long it may take until processes that CRIU left are themselves again, and
	// stand.
	settleTime = 10 * time.Second
	// recovery is how long they run at a time, to leave CRIU's code.
	recovery = 5 * time.Millisecond
	// healTime is how long they may take for it; a parasite that nobody talks to any more returns at
	// once.
	healTime = 2 * time.Second
)

// heal mends what CRIU, dying, has left in the processes of the tree. A tree that cannot be mended
// is ended as a whole.
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

// recover ends when all stand still and none is in CRIU's code.
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
			return errors.New("it does not leave CRIU's code")
		}
		if err := w.group.Start(); err != nil {
			return err
		}
		time.Sleep(recovery) //nolint:forbidigo // whether they have left can be seen only when they stand
	}
}
