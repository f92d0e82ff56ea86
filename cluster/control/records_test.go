package control

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/phos-gpu/phos/cluster/launch"
	"github.com/phos-gpu/phos/cluster/record"
	"github.com/phos-gpu/phos/cluster/store"
	"github.com/phos-gpu/phos/tests/harness"
)

// unread is a store whose records of launches cannot be listed.
type unread struct{ store.Store }

func (u unread) List(ctx context.Context, prefix string) ([]store.Object, store.Revision, error) {
	if prefix == record.LaunchPrefix {
		return nil, 0, store.ErrUnavailable
	}
	return u.Store.List(ctx, prefix)
}

// TestMirror: a leader that takes its records from a mirror has what is in the store, and does not
// read it. Launches and nodes were changed until the last leader's end.
func TestMirror(t *testing.T) {
	w := newWorld(t)
	w.awaitMirror()
	a := w.join("a", 2)
	first := w.launch(simple(1, 1))
	w.await(first, "running")
	for range 20 {
		w.launch(simple(2, 1))
	}
	for _, k := range a.awaitRunning(1) {
		a.finish(k, 0)
	}
	w.await(first, "ended")
	w.depose()
	a.detach()
	w.leadOn(unread{w.objects})
	objects, _, err := w.objects.List(t.Context(), record.LaunchPrefix)
	if err != nil {
		t.Fatal(err)
	}
	w.turn(func(l *Leader) {
		if len(objects) != len(l.launches) || len(l.nodes) != 1 {
			t.Errorf("%d launches and %d nodes, want %d and 1", len(l.launches), len(l.nodes), len(objects))
		}
		for _, object := range objects {
			read, err := record.DecodeLaunch(object.Value)
			if err != nil {
				t.Fatal(err)
			}
			e := l.launches[read.ID]
			if e == nil || e.revision != object.Revision || string(e.Encode()) != string(read.Encode()) {
				t.Errorf("the leader has %+v of launch %s", e, read.ID)
			}
		}
	})
	a.attach()
	a.awaitRunning(2)
}

// awaitMirror waits until the next leader has a copy.
func (w *world) awaitMirror() {
	w.Helper()
	w.awaitTurn(func(*Leader) bool { return w.next.Ready() })
}

// full is a store that may take no records of launches.
type full struct {
	store.Store
	refuses atomic.Bool
	refused atomic.Int64
}

func (f *full) Put(ctx context.Context, w store.Write) (store.Revision, error) {
	if f.refuses.Load() && strings.HasPrefix(w.Key, record.LaunchPrefix) {
		f.refused.Add(1)
		return 0, store.ErrFull
	}
	return f.Store.Put(ctx, w)
}

// TestRenewedWhileStoreIsFull: agents renew their leases again and again with a leader whose record
// no store takes. People are told of it.
func TestRenewedWhileStoreIsFull(t *testing.T) {
	w := newWorld(t)
	w.depose()
	objects := &full{Store: w.objects}
	w.leadOn(objects)
	a := w.join("a", 1)
	id := w.launch(simple(1, 1))
	w.await(id, launch.Running)
	a.awaitRunning(1)
	objects.refuses.Store(true)
	created := make(chan error)
	go func() {
		_, err := w.submit(simple(1, 1), Submission{Owner: "ada", By: "ada", Request: "once"})
		created <- err
	}()
	harness.Eventually(t, "a record is refused", func() bool { return objects.refused.Load() > 0 })
	renewed := func() int {
		a.mu.Lock()
		defer a.mu.Unlock()
		return a.renewed
	}
	enough := renewed() + 8
	harness.Eventually(t, "the agent renews its lease", func() bool { return renewed() >= enough })
	err := <-created
	if !errors.Is(err, store.ErrFull) || !strings.Contains(err.Error(), "the request may be carried out when it does") {
		t.Errorf("who asks meanwhile gets %v", err)
	}
	objects.refuses.Store(false)
	second, err := w.submit(simple(1, 1), Submission{Owner: "ada", By: "ada", Request: "once"})
	if err != nil {
		t.Fatal(err)
	}
	if got := w.await(second, launch.Queued); got.Number != 2 {
		t.Errorf("the launch that was asked for twice is number %d", got.Number)
	}
	if got := w.await(id, launch.Running); got.State.Replicas[0].Attempt != 1 {
		t.Errorf("it is in attempt %d", got.State.Replicas[0].Attempt)
	}
}
