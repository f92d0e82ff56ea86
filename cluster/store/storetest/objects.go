package storetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"

	"github.com/phos-gpu/phos/cluster/store"
)

// put writes an object, or ends the test.
func (f *fixture) put(key, value string, replaces store.Revision) store.Revision {
	f.Helper()
	revision, err := f.store.Put(f.ctx, store.Write{Key: key, Value: []byte(value), Replaces: replaces})
	if err != nil {
		f.Fatal(err)
	}
	return revision
}

// remove removes an object, or ends the test.
func (f *fixture) remove(key string, replaces store.Revision) {
	f.Helper()
	if err := f.store.Delete(f.ctx, store.Write{Key: key, Replaces: replaces}); err != nil {
		f.Fatal(err)
	}
}

// refused fails the test unless an error is the one that is wanted, and says of which key it
// speaks.
func (f *fixture) refused(what string, err, want error) {
	f.Helper()
	if !errors.Is(err, want) {
		f.Errorf("%s: %v, want %v", what, err, want)
	}
}

// holds fails the test unless an object has a value and a revision.
func (f *fixture) holds(key, value string, revision store.Revision) {
	f.Helper()
	got, err := f.store.Get(f.ctx, key)
	if err != nil || got.Key != key || string(got.Value) != value || got.Revision != revision {
		f.Errorf("%s: %.80q at %d, %v; want %.80q at %d", got.Key, got.Value, got.Revision, err, value, revision)
	}
}

// writtenIsRead: what one client has written, each client reads.
func writtenIsRead(f *fixture) {
	_, err := f.store.Get(f.ctx, "nodes/a")
	f.refused("an object that is not there", err, store.ErrNotFound)
	first := f.put("nodes/a", "1", store.New)
	second := f.put("nodes/a/boot_id", "", store.New)
	if first <= 0 || second <= first {
		f.Errorf("revisions %d and %d", first, second)
	}
	f.holds("nodes/a", "1", first)
	f.holds("nodes/a/boot_id", "", second)
	third := f.put("nodes/a", string([]byte{0, 0xff, '\n'}), first)
	f.holds("nodes/a", "\x00\xff\n", third)
	if other, err := f.another().Get(f.ctx, "nodes/a"); err != nil || other.Revision != third {
		f.Errorf("another client reads %v, %v", other, err)
	}
}

// wrongKeys: all methods refuse what is no key.
func wrongKeys(f *fixture) {
	for _, key := range []string{"", "/a", "a/", "a//b", "a b", "a\x00", "ä", "../\n", strings.Repeat("k", store.MaxKey+1)} {
		_, err := f.store.Get(f.ctx, key)
		f.refused("read", err, store.ErrBadKey)
		_, err = f.store.Put(f.ctx, store.Write{Key: key})
		f.refused("write", err, store.ErrBadKey)
		f.refused("remove", f.store.Delete(f.ctx, store.Write{Key: key, Replaces: 1}), store.ErrBadKey)
	}
	_, _, err := f.store.List(f.ctx, "/")
	f.refused("list", err, store.ErrBadKey)
	err = f.store.Watch(f.ctx, "a//", 0, func([]store.Change) error { return nil })
	f.refused("watch", err, store.ErrBadKey)
}

// writesReplace: a write replaces the revision that it names, and no other.
func writesReplace(f *fixture) {
	first := f.put("a", "1", store.New)
	_, err := f.store.Put(f.ctx, store.Write{Key: "a", Value: []byte("2")})
	f.refused("an object that exists", err, store.ErrConflict)
	for _, replaces := range []store.Revision{first - 1, first + 1, -1} {
		_, err = f.store.Put(f.ctx, store.Write{Key: "a", Value: []byte("2"), Replaces: replaces})
		f.refused("another revision", err, store.ErrConflict)
		_, err = f.store.Put(f.ctx, store.Write{Key: "b", Value: []byte("2"), Replaces: replaces + 2})
		f.refused("an object that is not there", err, store.ErrConflict)
	}
	f.holds("a", "1", first)
	second := f.put("a", "1", first) // the same value is a change, too
	_, err = f.store.Put(f.ctx, store.Write{Key: "a", Value: []byte("3"), Replaces: first})
	f.refused("a revision that was replaced", err, store.ErrConflict)
	f.holds("a", "1", second)
}

// objectsAreRemoved: a removal names a revision, too, and does not succeed twice.
func objectsAreRemoved(f *fixture) {
	first := f.put("a", "1", store.New)
	f.refused("no revision", f.store.Delete(f.ctx, store.Write{Key: "a"}), store.ErrConflict)
	f.refused("no object", f.store.Delete(f.ctx, store.Write{Key: "b"}), store.ErrConflict)
	f.refused("no object", f.store.Delete(f.ctx, store.Write{Key: "b", Replaces: first}), store.ErrConflict)
	second := f.put("a", "2", first)
	f.refused("an old revision", f.store.Delete(f.ctx, store.Write{Key: "a", Replaces: first}), store.ErrConflict)
	f.holds("a", "2", second)
	f.remove("a", second)
	_, err := f.store.Get(f.ctx, "a")
	f.refused("a removed object", err, store.ErrNotFound)
	f.refused("a removed object", f.store.Delete(f.ctx, store.Write{Key: "a", Replaces: second}), store.ErrConflict)
	_, err = f.store.Put(f.ctx, store.Write{Key: "a", Replaces: second})
	f.refused("a removed object", err, store.ErrConflict)
	if again := f.put("a", "3", store.New); again <= second {
		f.Errorf("the object that was made again has revision %d, after %d", again, second)
	}
}

// largeValues: the largest value comes back, and one byte more is refused.
func largeValues(f *fixture) {
	value := make([]byte, store.MaxValue+1)
	seeded := rand.NewChaCha8([32]byte{1})
	_, _ = seeded.Read(value)
	_, err := f.store.Put(f.ctx, store.Write{Key: "a", Value: value})
	f.refused("one byte too many", err, store.ErrTooLarge)
	if err != nil && len(err.Error()) > 300 {
		f.Errorf("an error of %d bytes", len(err.Error()))
	}
	key := strings.Repeat("k", store.MaxKey)
	f.holds(key, string(value[1:]), f.put(key, string(value[1:]), store.New))
}

// endedContext: a call whose context has ended says so, and not that the store is unavailable.
func endedContext(f *fixture) {
	ctx, cancel := context.WithCancel(f.ctx)
	cancel()
	_, err := f.store.Get(ctx, "a")
	f.refused("read", err, context.Canceled)
	_, _, err = f.store.List(ctx, "a")
	f.refused("list", err, context.Canceled)
	_, err = f.store.Put(ctx, store.Write{Key: "a"})
	f.refused("write", err, context.Canceled)
	_, err = f.store.Campaign(ctx, "a")
	f.refused("campaign", err, context.Canceled)
	f.refused("watch", f.store.Watch(ctx, "a", 0, nil), context.Canceled)
}

// closedClient: calls of a closed client end at once, and its leadership lasts as long as its
// lease.
func closedClient(f *fixture) {
	closed := f.another()
	leads, err := closed.Campaign(f.ctx, "closed")
	if err != nil {
		f.Fatal(err)
	}
	if err := closed.Close(); err != nil {
		f.Error(err)
	}
	<-leads.Lost()
	_, err = closed.Get(f.ctx, "a")
	f.refused("read", err, store.ErrUnavailable)
	_, err = closed.Put(f.ctx, store.Write{Key: "a"})
	f.refused("write", err, store.ErrUnavailable)
	_, err = closed.Campaign(f.ctx, "a")
	f.refused("campaign", err, store.ErrUnavailable)
	f.refused("watch", closed.Watch(f.ctx, "a", 0, nil), store.ErrUnavailable)
	if name, _, err := f.store.Leader(f.ctx); err != nil || name != "closed" {
		f.Errorf("closing a client has resigned its leadership: %q, %v", name, err)
	}
}

// countersLoseNothing lets clients count in shared objects. Each acknowledged step counts once.
func countersLoseNothing(f *fixture) {
	const clients, keys = 4, 2
	steps := f.many(25, 250)
	var all sync.WaitGroup
	for i := range clients {
		s, seeded := f.another(), rand.New(rand.NewPCG(uint64(i), 1))
		all.Go(func() {
			for range steps {
				if err := Increment(f.ctx, s, fmt.Sprintf("count/%d", seeded.IntN(keys))); err != nil {
					f.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
	total := 0
	objects, _, err := f.store.List(f.ctx, "count/")
	for _, object := range objects {
		total += len(object.Value)
	}
	if err != nil || total != clients*steps {
		f.Errorf("%d steps were counted, %v; %d were acknowledged", total, err, clients*steps)
	}
}

// Increment makes an object one byte longer, by reading it and replacing what was read. It tries
// again after a conflict, and returns any other error: the step may have been done then.
func Increment(ctx context.Context, s store.Store, key string) error {
	for {
		object, err := s.Get(ctx, key)
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			return fmt.Errorf("not begun: %w", err)
		}
		value := append(bytes.Clone(object.Value), '+')
		_, err = s.Put(ctx, store.Write{Key: key, Value: value, Replaces: object.Revision})
		if !errors.Is(err, store.ErrConflict) {
			return err
		}
	}
}
