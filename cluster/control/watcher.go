package control

import (
	"sync"

	"github.com/phos-gpu/phos/cluster/api"
)

// watcher is a request that is told of each change of launches. Changes that it has not taken yet
// are merged: of each launch it gets the newest state.
type watcher struct {
	leader *Leader
	wants  func(*entry) bool

	mu      sync.Mutex
	pending map[string]*api.Launch
	ended   error
	ready   chan struct{}
}

func newWatcher(l *Leader, wants func(*entry) bool) *watcher {
	return &watcher{leader: l, wants: wants, pending: map[string]*api.Launch{}, ready: make(chan struct{}, 1)}
}

// changed notes that a launch has changed.
func (w *watcher) changed(e *entry) {
	if !w.wants(e) {
		return
	}
	view := w.leader.view(e)
	w.mu.Lock()
	w.pending[e.ID] = view
	w.mu.Unlock()
	w.wake()
}

// end ends the request with an error.
func (w *watcher) end(err error) {
	w.mu.Lock()
	if w.ended == nil {
		w.ended = err
	}
	w.mu.Unlock()
	w.wake()
}

// wake lets the request look for changes.
func (w *watcher) wake() {
	select {
	case w.ready <- struct{}{}:
	default:
	}
}

// take returns what has changed since the last time.
func (w *watcher) take() (changed []*api.Launch, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, view := range w.pending {
		changed = append(changed, view)
	}
	clear(w.pending)
	return changed, w.ended
}
