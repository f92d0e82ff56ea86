package writer

import (
	"context"
	"errors"
	"log/slog"
	"testing"

	"github.com/phos-gpu/phos/cluster/store"
	"github.com/phos-gpu/phos/cluster/store/etcd/server/servertest"
)

// failing is a store whose next writes fail as a script says.
type failing struct {
	store.Store
	script []failure
}

// failure is what becomes of one write.
type failure struct {
	before func() // what happens in the meantime
	done   bool   // the store has done the write, though it does not say so
	err    error
}

func (f *failing) Put(ctx context.Context, w store.Write) (store.Revision, error) {
	if len(f.script) == 0 {
		return f.Store.Put(ctx, w)
	}
	next := f.script[0]
	f.script = f.script[1:]
	if next.before != nil {
		next.before()
	}
	if next.done {
		if _, err := f.Store.Put(ctx, w); err != nil {
			return 0, err
		}
	}
	return 0, next.err
}

// newWriter returns a writer of a leader over a real store.
func newWriter(t *testing.T) (*Writer, *failing) {
	t.Helper()
	objects := servertest.Store(t)
	leadership, err := objects.Campaign(t.Context(), "here")
	if err != nil {
		t.Fatal(err)
	}
	f := &failing{Store: objects}
	return &Writer{Store: f, Leadership: leadership, Log: slog.New(slog.NewTextHandler(t.Output(), nil))}, f
}

// stored returns the value and revision of an object.
func stored(t *testing.T, s store.Store, key string) (string, store.Revision) {
	t.Helper()
	object, err := s.Get(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	return string(object.Value), object.Revision
}

// TestPut: a record is written once the store takes it, also if an earlier try was done without
// an answer. The revision is that of the store afterwards.
func TestPut(t *testing.T) {
	w, f := newWriter(t)
	var revision store.Revision
	for i, script := range [][]failure{
		nil,
		{{err: store.ErrUnavailable}},
		{{err: store.ErrFull}, {err: store.ErrUnavailable}},
		{{err: store.ErrUnavailable, done: true}},
		{{err: store.ErrFull}, {err: store.ErrUnavailable, done: true}},
	} {
		f.script = script
		value := string(rune('a' + i))
		if err := w.Put(t.Context(), "launches/one", []byte(value), &revision); err != nil {
			t.Fatalf("after %v: %v", script, err)
		}
		if got, at := stored(t, f.Store, "launches/one"); got != value || at != revision {
			t.Errorf("after %v the store has %q at %d, and the writer %q at %d", script, got, at, value, revision)
		}
	}
}

// TestPutFails: the leader must stop if another one has written its record, or leads.
func TestPutFails(t *testing.T) {
	w, f := newWriter(t)
	var revision store.Revision
	if err := w.Put(t.Context(), "launches/one", []byte("mine"), &revision); err != nil {
		t.Fatal(err)
	}
	foreign := func() {
		write := store.Write{Key: "launches/one", Value: []byte("foreign"), Replaces: revision, Epoch: w.Leadership.Epoch()}
		if _, err := f.Store.Put(t.Context(), write); err != nil {
			t.Error(err)
		}
	}
	f.script = []failure{{before: foreign, err: store.ErrUnavailable}}
	if err := w.Put(t.Context(), "launches/one", []byte("mine, too"), &revision); !errors.Is(err, store.ErrConflict) {
		t.Errorf("a record that another one has changed: %v", err)
	}
	if got, _ := stored(t, f.Store, "launches/one"); got != "foreign" {
		t.Errorf("the store has %q", got)
	}

	resign := func() {
		if err := w.Leadership.Resign(t.Context()); err != nil {
			t.Error(err)
		}
	}
	fresh := store.New
	f.script = []failure{{before: resign, err: store.ErrFull}, {err: store.ErrFull}}
	if err := w.Put(t.Context(), "launches/two", nil, &fresh); !errors.Is(err, store.ErrDeposed) {
		t.Errorf("without a leadership: %v", err)
	}

	f.script = nil
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if err := w.Put(over, "launches/two", nil, &fresh); !errors.Is(err, context.Canceled) {
		t.Errorf("after the end: %v", err)
	}
}

// silent is a store that does not answer the first writes.
type silent struct {
	store.Store
	writes int         // that get no answer
	asked  chan<- bool // gets a value for each of them
}

func (s *silent) Put(ctx context.Context, w store.Write) (store.Revision, error) {
	if s.writes == 0 {
		return s.Store.Put(ctx, w)
	}
	s.writes--
	s.asked <- true
	<-ctx.Done()
	return 0, ctx.Err()
}

// TestNoAnswer: a try without an answer is given up, and so is the record when the leadership ends.
func TestNoAnswer(t *testing.T) {
	w, f := newWriter(t)
	asked := make(chan bool, 2)
	w.Store = &silent{Store: f.Store, writes: 1, asked: asked}
	var revision store.Revision
	if err := w.Put(t.Context(), "launches/one", []byte("x"), &revision); err != nil {
		t.Errorf("after a write without an answer: %v", err)
	}
	<-asked
	stored(t, f.Store, "launches/one")

	w.Store = &silent{Store: f.Store, writes: 1, asked: asked}
	resigned := make(chan error)
	go func() {
		<-asked
		resigned <- w.Leadership.Resign(t.Context())
	}()
	if err := w.Put(t.Context(), "launches/one", []byte("y"), &revision); !errors.Is(err, store.ErrDeposed) {
		t.Errorf("after the end of the leadership: %v", err)
	}
	if err := <-resigned; err != nil {
		t.Error(err)
	}
	if got, _ := stored(t, f.Store, "launches/one"); got != "x" {
		t.Errorf("the store has %q", got)
	}
}

// TestDelete: a record that cannot be removed stays, and that is no error.
func TestDelete(t *testing.T) {
	w, f := newWriter(t)
	var revision store.Revision
	if err := w.Put(t.Context(), "nodes/one", []byte("x"), &revision); err != nil {
		t.Fatal(err)
	}
	w.Delete(t.Context(), "nodes/one", revision+1)
	stored(t, f.Store, "nodes/one")
	w.Delete(t.Context(), "nodes/one", revision)
	if _, err := f.Store.Get(t.Context(), "nodes/one"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("the record is still there: %v", err)
	}
}
