package serve

import (
	"context"
	"maps"
	"slices"
	"sync"

	"github.com/phos-gpu/phos/cluster/api"
	"github.com/phos-gpu/phos/cluster/control"
	"github.com/phos-gpu/phos/cluster/control/backlog"
	"github.com/phos-gpu/phos/cluster/record"
)

// watcher is a request that is told of each change of launches. Changes that it has not taken yet
// are merged: of each launch it gets the newest state.
type watcher struct {
	wants func(*record.Launch) bool
	ready backlog.Signal

	mu      sync.Mutex
	pending map[string]*api.Launch
	ended   error
}

// watch makes a turn in which a watcher is added. The caller ends it by leader.Unwatch.
func watch(
	ctx context.Context, leader *control.Leader, first func(control.Turn) (wants func(*record.Launch) bool, err error),
) (*watcher, error) {
	w := &watcher{pending: map[string]*api.Launch{}, ready: backlog.NewSignal()}
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
func (w *watcher) Changed(l *record.Launch) {
	if !w.wants(l) {
		return
	}
	view := launchView(l)
	w.mu.Lock()
	w.pending[l.ID] = view
	w.mu.Unlock()
	w.ready.Send()
}

// NodesChanged implements control.Watcher.
func (w *watcher) NodesChanged() { w.ready.Send() }

// End implements control.Watcher.
func (w *watcher) End(err error) {
	w.mu.Lock()
	if w.ended == nil {
		w.ended = err
	}
	w.mu.Unlock()
	w.ready.Send()
}

// take returns what has changed since the last time.
func (w *watcher) take() ([]*api.Launch, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	changed := slices.Collect(maps.Values(w.pending))
	clear(w.pending)
	return changed, w.ended
}
