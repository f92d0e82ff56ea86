package mirror

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/phos-gpu/phos/cluster/control/backlog"
	"github.com/phos-gpu/phos/cluster/record"
	"github.com/phos-gpu/phos/cluster/store"
)

// Kept is a record with the revision of its object.
type Kept[T any] struct {
	Value    T
	Revision store.Revision
}

// Records are those that a leader begins with.
type Records struct {
	Nodes    []Kept[record.Node]
	Launches []Kept[record.Launch]
}

// Mirror follows the store.
type Mirror struct {
	objects store.Store
	log     *slog.Logger
	stop    context.CancelFunc
	ended   chan struct{}
	// moved says that more changes are in the copy.
	moved backlog.Signal

	mu       sync.Mutex
	at       store.Revision // the copy has all changes up to it; 0: there is no copy
	nodes    map[string]Kept[record.Node]
	launches map[string]Kept[record.Launch]
}

// retryAfter is the pause before the store is read again.
const retryAfter = time.Second

// Follow begins to follow the store, until Stop.
func Follow(ctx context.Context, objects store.Store, log *slog.Logger) *Mirror {
	ctx, stop := context.WithCancel(ctx)
	m := &Mirror{objects: objects, log: log, stop: stop, ended: make(chan struct{}), moved: backlog.NewSignal()}
	go func() {
		defer close(m.ended)
		for ctx.Err() == nil {
			err := m.follow(ctx)
			m.forget()
			if ctx.Err() == nil {
				m.log.Warn("records are not followed; a takeover would read them", "error", err)
			}
			select {
			case <-ctx.Done():
			case <-time.After(retryAfter):
			}
		}
	}()
	return m
}

// follow reads the store and then takes all changes, until that fails.
func (m *Mirror) follow(ctx context.Context) error {
	objects, at, err := m.objects.List(ctx, "")
	if err != nil {
		return err
	}
	m.begin()
	for _, object := range objects {
		if err := m.take(store.Change{Object: object}); err != nil {
			return err
		}
	}
	m.reach(at)
	return m.objects.Watch(ctx, "", at, func(group []store.Change) error {
		for _, change := range group {
			if err := m.take(change); err != nil {
				return err
			}
			at = max(at, change.Revision)
		}
		m.reach(at)
		return nil
	})
}

// begin makes an empty copy.
func (m *Mirror) begin() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.at, m.nodes, m.launches = 0, map[string]Kept[record.Node]{}, map[string]Kept[record.Launch]{}
}

// forget notes that the copy is no longer followed, unless it is being taken.
func (m *Mirror) forget() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.at = 0
}

// reach notes up to which revision the copy has all changes.
func (m *Mirror) reach(at store.Revision) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.at = at
	m.moved.Send()
}

// take puts a change into the copy.
func (m *Mirror) take(change store.Change) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case m.nodes == nil:
		return context.Canceled // it was taken
	case strings.HasPrefix(change.Key, record.NodePrefix):
		return put(m.nodes, change, record.DecodeNode)
	case strings.HasPrefix(change.Key, record.LaunchPrefix):
		return put(m.launches, change, record.DecodeLaunch)
	}
	return nil
}

// put puts a change into a table.
func put[T any](table map[string]Kept[T], change store.Change, decode func([]byte) (T, error)) error {
	if change.Deleted {
		delete(table, change.Key)
		return nil
	}
	value, err := decode(change.Value)
	if err != nil {
		return fmt.Errorf("%s: %w", change.Key, err)
	}
	table[change.Key] = Kept[T]{value, change.Revision}
	return nil
}

// Ready reports whether there is a copy.
func (m *Mirror) Ready() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.at > 0
}

// Stop ends the following.
func (m *Mirror) Stop() {
	m.stop()
	<-m.ended
}

// patience is how long a copy may take to get the last changes. Reading all takes longer.
const patience = time.Second

// Take returns the copy once it has all changes up to a revision, or reports false if it does not
// get them in time.
func (m *Mirror) Take(ctx context.Context, upTo store.Revision) (Records, bool) {
	timer := time.NewTimer(patience)
	defer timer.Stop()
	for {
		if records, ok := m.taken(upTo); ok {
			return records, true
		}
		select {
		case <-m.moved:
		case <-timer.C:
			return Records{}, false
		case <-ctx.Done():
			return Records{}, false
		}
	}
}

// taken takes the copy out of the mirror, if it has all changes up to a revision.
func (m *Mirror) taken(upTo store.Revision) (r Records, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.at < upTo || m.at == 0 {
		return r, false
	}
	for _, each := range m.nodes {
		r.Nodes = append(r.Nodes, each)
	}
	for _, each := range m.launches {
		r.Launches = append(r.Launches, each)
	}
	m.at, m.nodes, m.launches = 0, nil, nil
	return r, true
}
