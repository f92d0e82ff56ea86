package members

import (
	"context"
	"errors"
	"time"

	"github.com/phos-gpu/phos/cluster/record"
	"github.com/phos-gpu/phos/cluster/store"
	"github.com/phos-gpu/phos/internal/ticks"
)

// Follow learns what other controllers write, the CA and where they are reached, until the context
// ends.
func (m *Members) Follow(ctx context.Context) {
	go follow(ctx, m.store, record.CAKey, m.takeRing)
	go follow(ctx, m.store, record.ControllerPrefix, m.takeControllers)
}

// lookAgain is the pause before a store that has not answered is read again.
const lookAgain = time.Second

// errChanged ends a watch at the first change.
var errChanged = errors.New("something has changed")

// follow calls take with what the store has under a prefix, now and after each change, until the
// context ends.
func follow(ctx context.Context, from store.Store, prefix string, take func([]store.Object)) {
	for ctx.Err() == nil {
		objects, revision, err := from.List(ctx, prefix)
		if err == nil {
			take(objects)
			err = from.Watch(ctx, prefix, revision, func([]store.Change) error { return errChanged })
		}
		if !errors.Is(err, errChanged) {
			_ = ticks.Pause(ctx, lookAgain) // the loop sees that the context has ended
		}
	}
}
