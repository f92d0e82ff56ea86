package control

import (
	"context"
	"testing"

	"github.com/phos-gpu/phos/cluster/record"
	"github.com/phos-gpu/phos/cluster/store"
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
