package restorer

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/phos-gpu/phos/ckpt"
)

// rootEnd is what a Wait has learnt of the end of a root.
type rootEnd struct {
	once  *sync.Once
	known chan struct{} // closed when lost is set
	// lost is why the tree was killed; empty if it was not.
	lost *string
}

func newRootEnd() rootEnd {
	return rootEnd{once: new(sync.Once), known: make(chan struct{}), lost: new(string)}
}

// set says that the root has ended.
func (e rootEnd) set(lost string) {
	e.once.Do(func() {
		*e.lost = lost
		close(e.known)
	})
}

// waitAnswerTime is how long the answer to a Wait may be under way when the restorer has ended.
const waitAnswerTime = time.Second

// whyLost returns why a tree was killed whose restorer has ended, if it was: a restorer ends when
// it has answered a Wait.
func (e rootEnd) whyLost(ctx context.Context) error {
	select {
	case <-e.known:
	case <-time.After(waitAnswerTime): // there is no Wait, or the restorer was killed
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if *e.lost == "" {
		return nil
	}
	return fmt.Errorf("%w: %s", ckpt.ErrMemoryLost, *e.lost)
}
