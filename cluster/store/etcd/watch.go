package etcd

import (
	"context"
	"errors"
	"fmt"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/phos-gpu/phos/cluster/store"
	"github.com/phos-gpu/phos/internal/ticks"
)

// Watch sends changes until the context ends, deliver fails, or changes are missing.
func (s *Store) Watch(
	ctx context.Context, prefix string, after store.Revision, deliver func([]store.Change) error,
) error {
	if err := store.CheckPrefix(prefix); err != nil {
		return err
	}
	w := watch{store: s, path: s.path(prefix), after: int64(max(after, 0)), deliver: deliver}
	w.options = []clientv3.OpOption{clientv3.WithPrefix()}
	err := w.run(ctx)
	var stopped stop
	if errors.As(err, &stopped) {
		return stopped.error
	}
	return fmt.Errorf("watch %s: %w", prefix, err)
}

// watch is a Watch that is under way. etcd's client resumes it by itself after most interruptions;
// this type does so after all others, as when a member of etcd has lost the others.
type watch struct {
	store   *Store
	path    string
	options []clientv3.OpOption
	after   int64 // the revision up to which everything was delivered
	deliver func([]store.Change) error
}

// stop is an error of deliver.
type stop struct{ error }

func (w *watch) run(ctx context.Context) error {
	for {
		err := w.follow(ctx)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case w.store.client.Ctx().Err() != nil:
			return w.store.meaning(err, "")
		case !errors.Is(err, store.ErrUnavailable):
			return err
		}
		w.store.config.Log.Warn("watch interrupted", "key", w.path, "after", w.after, "error", err)
		if err := ticks.Pause(ctx, retryTime); err != nil {
			return err
		}
	}
}

// follow delivers changes until the connection fails. The client keeps what deliver does not take,
// without a limit: that is as much as the store changes.
func (w *watch) follow(ctx context.Context) error {
	ctx, cancel := context.WithCancel(clientv3.WithRequireLeader(ctx))
	defer cancel() // the client releases a watch when its context ends
	options := append([]clientv3.OpOption{clientv3.WithRev(w.after + 1), clientv3.WithProgressNotify()}, w.options...)
	for response := range w.store.client.Watch(ctx, w.path, options...) {
		if err := response.Err(); err != nil {
			return w.store.meaning(err, "")
		}
		if err := w.take(response); err != nil {
			return err
		}
	}
	return fmt.Errorf("%w: the watch ended", store.ErrUnavailable)
}

// take delivers the changes of a response, those of one revision together.
func (w *watch) take(response clientv3.WatchResponse) error {
	events := response.Events
	for len(events) > 0 {
		revision, n := events[0].Kv.ModRevision, 0
		var group []store.Change
		for n < len(events) && events[n].Kv.ModRevision == revision {
			group = append(group, w.store.change(events[n]))
			n++
		}
		if err := w.deliver(group); err != nil {
			return stop{err}
		}
		w.after, events = revision, events[n:]
	}
	if response.IsProgressNotify() {
		w.after = max(w.after, response.Header.Revision)
	}
	return nil
}

// change is an event of etcd as one of the contract.
func (s *Store) change(event *clientv3.Event) store.Change {
	return store.Change{
		Object: store.Object{
			Key: s.key(event.Kv.Key), Value: event.Kv.Value, Revision: store.Revision(event.Kv.ModRevision),
		},
		Deleted: event.Type == mvccpb.Event_DELETE,
	}
}
