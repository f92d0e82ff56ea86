package serve

import (
	"context"
	"maps"
	"slices"
	"sync"

	"github.com/phos-gpu/phos/cluster/control"
	"github.com/phos-gpu/phos/cluster/control/backlog"
	"github.com/phos-gpu/phos/cluster/record"
)

// watcher is a request that is told of each change of launches and nodes. Changes that it has not
// taken yet are merged: of each launch or node it gets the newest one.
type watcher[Change any] struct {
	wants[Change]
	ready backlog.Signal

	mu      sync.Mutex
	pending map[string]Change
	ended   error
}

// wants says what a request gets of a launch or node that has changed, and whether it wants it.
type wants[Change any] struct {
	launch func(*record.Launch) (Change, bool)
	node   func(*record.Node) (Change, bool) // nil: it wants no node
}

// watch makes a turn in which a watcher is added. The caller ends it by leader.Unwatch.
func watch[Change any](
	ctx context.Context, leader *control.Leader, first func(control.Turn) (wants[Change], error),
) (*watcher[Change], error) {
	w := &watcher[Change]{pending: map[string]Change{}, ready: backlog.NewSignal()}
	err := leader.Ask(ctx, func(t control.Turn) (err error) {
		if w.wants, err = first(t); err == nil {
			t.Watch(w)
		}
		return err
	})
	if err != nil {
		leader.Unwatch(w) // the turn may be made yet
		return nil, err
	}
	return w, nil
}

// Changed implements control.Watcher.
func (w *watcher[Change]) Changed(l *record.Launch) {
	if change, wanted := w.launch(l); wanted {
		w.add("launch "+l.ID, change)
	}
}

// NodeChanged implements control.Watcher.
func (w *watcher[Change]) NodeChanged(n *record.Node) {
	if w.node == nil {
		return
	}
	if change, wanted := w.node(n); wanted {
		w.add("node "+n.Name, change)
	}
}

// add notes the newest change of one thing.
func (w *watcher[Change]) add(key string, change Change) {
	w.mu.Lock()
	w.pending[key] = change
	w.mu.Unlock()
	w.ready.Send()
}

// End implements control.Watcher.
func (w *watcher[Change]) End(err error) {
	w.mu.Lock()
	if w.ended == nil {
		w.ended = err
	}
	w.mu.Unlock()
	w.ready.Send()
}

// take returns what has changed since the last time.
func (w *watcher[Change]) take() ([]Change, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	changed := slices.Collect(maps.Values(w.pending))
	clear(w.pending)
	return changed, w.ended
}
