package etcd_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/phos-gpu/phos/cluster/store"
	"github.com/phos-gpu/phos/cluster/store/etcd"
	"github.com/phos-gpu/phos/cluster/store/etcd/server/servertest"
	"github.com/phos-gpu/phos/cluster/store/storetest"
	"github.com/phos-gpu/phos/tests/harness"
	"github.com/phos-gpu/phos/tests/harness/rounds"
)

// ledger is what clients know of their writes.
type ledger struct {
	mu sync.Mutex
	// counted and unknown are steps of counters: acknowledged, and without an answer.
	counted, unknown int
	// made are objects that were acknowledged, with their revisions.
	made map[string]store.Revision
}

// work counts and makes objects until the context ends.
func (l *ledger) work(ctx context.Context, s *etcd.Store, client int) error {
	for i := 0; ctx.Err() == nil; i++ {
		err := storetest.Increment(ctx, s, fmt.Sprintf("count/%d", i%2))
		key := fmt.Sprintf("made/%d-%d", client, i)
		revision, putErr := s.Put(ctx, store.Write{Key: key, Value: []byte(key)})
		for _, err := range []error{err, putErr} {
			if err != nil && ctx.Err() == nil && !errors.Is(err, store.ErrUnavailable) {
				return err
			}
		}
		l.note(err, key, revision)
	}
	return nil
}

// note counts a step, and an object if it has a revision.
func (l *ledger) note(err error, key string, revision store.Revision) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err == nil {
		l.counted++
	} else {
		l.unknown++
	}
	if revision != store.New {
		l.made[key] = revision
	}
}

// acknowledged returns how many steps were acknowledged so far.
func (l *ledger) acknowledged() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.counted
}

// TestKilledStore kills etcd again and again while clients write. Nothing that was acknowledged is
// lost, and nothing is done twice. A watch sees each change once.
func TestKilledStore(t *testing.T) {
	t.Parallel()
	const clients = 4
	process := servertest.Start(t, servertest.Config(t))
	config := etcd.Config{Endpoints: []string{process.Endpoint()}, Timeout: 300 * time.Millisecond}
	working, stop := context.WithCancel(t.Context())
	done := &ledger{made: map[string]store.Revision{}}
	var all sync.WaitGroup
	for i := range clients {
		s := open(t, config)
		all.Go(func() {
			if err := done.work(working, s, i); err != nil {
				t.Error(err)
			}
		})
	}
	seen := make(chan map[string]int, 1)
	reader := open(t, config)
	go func() { seen <- watchUntil(t, reader, "end") }()
	for range rounds.Of(3, 15) {
		before := done.acknowledged()
		harness.Eventually(t, "clients write", func() bool { return done.acknowledged() > before })
		time.Sleep(rand.N(100 * time.Millisecond)) // until any point of the writes
		process.Kill()
		process.Restart(t)
	}
	stop()
	all.Wait()
	patient := open(t, etcd.Config{Endpoints: config.Endpoints, Timeout: harness.Patience})
	if _, err := patient.Put(t.Context(), store.Write{Key: "end"}); err != nil {
		t.Fatal(err)
	}
	done.check(t, patient, <-seen)
}

// watchUntil counts the changes of each object until one object is made.
func watchUntil(t *testing.T, s *etcd.Store, last string) map[string]int {
	changes := map[string]int{}
	end := errors.New("end")
	revision := store.Revision(0)
	err := s.Watch(t.Context(), "", 0, func(group []store.Change) error {
		for _, change := range group {
			if change.Revision <= revision {
				t.Errorf("revision %d after %d", change.Revision, revision)
			}
			revision = change.Revision
			changes[change.Key]++
			if change.Key == last {
				return end
			}
		}
		return nil
	})
	if !errors.Is(err, end) {
		t.Error(err)
	}
	return changes
}

// check compares what clients know with what the store has, and with what a watch has seen.
func (l *ledger) check(t *testing.T, s *etcd.Store, seen map[string]int) {
	t.Helper()
	objects, _, err := s.List(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	total, steps, found := 0, 0, map[string]store.Revision{}
	for _, object := range objects {
		found[object.Key] = object.Revision
		if object.Key[:2] == "co" {
			total += len(object.Value)
			steps += seen[object.Key]
		} else if seen[object.Key] != 1 {
			t.Errorf("a watch has seen %s %d times", object.Key, seen[object.Key])
		}
	}
	t.Logf("%d steps acknowledged, %d without an answer, %d objects", l.counted, l.unknown, len(l.made))
	if total < l.counted || total > l.counted+l.unknown || steps != total {
		t.Errorf("%d steps are stored and %d were seen; %d were acknowledged and %d had no answer",
			total, steps, l.counted, l.unknown)
	}
	for key, revision := range l.made {
		if found[key] != revision {
			t.Errorf("%s was acknowledged at %d and is at %d", key, revision, found[key])
		}
	}
}
