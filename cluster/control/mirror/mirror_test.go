package mirror

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/phos-gpu/phos/cluster/launch"
	"github.com/phos-gpu/phos/cluster/record"
	"github.com/phos-gpu/phos/cluster/store"
	"github.com/phos-gpu/phos/cluster/store/etcd/server/servertest"
	"github.com/phos-gpu/phos/tests/harness"
)

// follow returns a mirror that follows a store until the test ends.
func follow(t *testing.T, objects store.Store) *Mirror {
	t.Helper()
	m := Follow(context.Background(), objects, slog.New(slog.NewTextHandler(t.Output(), nil)))
	t.Cleanup(m.Stop)
	return m
}

// writer writes records, and keeps what is in the store as a test knows it.
type writer struct {
	*testing.T
	store.Store
	kept map[string]store.Object
	last store.Revision
}

// put writes a node, a launch, or something that is neither.
func (w *writer) put(key, text string) {
	w.Helper()
	value := []byte(text)
	switch {
	case strings.HasPrefix(key, record.NodePrefix):
		n := record.Node{Name: record.NodeName(key), BootID: text}
		value = n.Encode()
	case strings.HasPrefix(key, record.LaunchPrefix):
		l := record.Launch{ID: strings.TrimPrefix(key, record.LaunchPrefix), By: text}
		l.State.Spec.Jobs = []launch.Job{{Name: "main"}}
		value = l.Encode()
	}
	w.write(key, value)
}

// write writes an object.
func (w *writer) write(key string, value []byte) {
	w.Helper()
	at, err := w.Put(w.Context(), store.Write{Key: key, Value: value, Replaces: w.kept[key].Revision})
	if err != nil {
		w.Fatal(err)
	}
	w.kept[key], w.last = store.Object{Key: key, Value: value, Revision: at}, at
}

// remove deletes an object. A write behind it tells the revision.
func (w *writer) remove(key string) {
	w.Helper()
	if err := w.Delete(w.Context(), store.Write{Key: key, Replaces: w.kept[key].Revision}); err != nil {
		w.Fatal(err)
	}
	delete(w.kept, key)
}

// records are those that the test has written.
func (w *writer) records() (r Records) {
	w.Helper()
	for key, object := range w.kept {
		switch {
		case strings.HasPrefix(key, record.NodePrefix):
			n, err := record.DecodeNode(object.Value)
			if err != nil {
				w.Fatal(err)
			}
			r.Nodes = append(r.Nodes, Kept[record.Node]{n, object.Revision})
		case strings.HasPrefix(key, record.LaunchPrefix):
			l, err := record.DecodeLaunch(object.Value)
			if err != nil {
				w.Fatal(err)
			}
			r.Launches = append(r.Launches, Kept[record.Launch]{l, object.Revision})
		}
	}
	return sorted(r)
}

// sorted puts records into the order in which they have changed.
func sorted(r Records) Records {
	slices.SortFunc(r.Nodes, func(a, b Kept[record.Node]) int { return cmp.Compare(a.Revision, b.Revision) })
	slices.SortFunc(r.Launches, func(a, b Kept[record.Launch]) int { return cmp.Compare(a.Revision, b.Revision) })
	return r
}

// newWriter returns a writer with a new store.
func newWriter(t *testing.T) *writer {
	t.Helper()
	return &writer{T: t, Store: servertest.Store(t), kept: map[string]store.Object{}}
}

// TestTake: the copy that is taken is all that was written before, whether the mirror has read it
// or was told of it.
func TestTake(t *testing.T) {
	w := newWriter(t)
	random := rand.New(rand.NewPCG(1, 2))
	step := func() {
		key := fmt.Sprintf("%s%d", []string{record.NodePrefix, record.LaunchPrefix, "other/"}[random.IntN(3)], random.IntN(6))
		if _, exists := w.kept[key]; exists && random.IntN(3) == 0 {
			w.remove(key)
			return
		}
		w.put(key, fmt.Sprint(random.Int()))
	}
	for range 5 {
		for range 20 {
			step()
		}
		m := follow(t, w)
		for range random.IntN(20) {
			step()
		}
		w.put("last", "it has a revision")
		var got Records
		harness.Eventually(t, "there is a copy", func() (ok bool) {
			got, ok = m.Take(t.Context(), w.last)
			return ok
		})
		if want := w.records(); !reflect.DeepEqual(sorted(got), want) {
			t.Errorf("the copy is\n%+v, want\n%+v", got, want)
		}
		if again, ok := m.taken(0); ok {
			t.Errorf("taken twice: %+v", again)
		}
		m.Stop()
	}
}

// held is a store that delivers changes only while it is let.
type held struct {
	store.Store
	mu  sync.Mutex
	err error // what a watch and its next delivery end with
}

// fail makes watches end.
func (h *held) fail(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.err = err
}

// Watch implements store.Store.
func (h *held) Watch(ctx context.Context, prefix string, after store.Revision, deliver func([]store.Change) error) error {
	return h.Store.Watch(ctx, prefix, after, func(changes []store.Change) error {
		h.mu.Lock()
		err := h.err
		h.mu.Unlock()
		if err != nil {
			return err
		}
		return deliver(changes)
	})
}

// TestIncomplete: a copy that lacks a change is not taken. It stays, until it has the change.
func TestIncomplete(t *testing.T) {
	w := newWriter(t)
	w.put(record.NodeKey("a"), "1")
	m := follow(t, w)
	harness.Eventually(t, "there is a copy", m.Ready)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if r, ok := m.Take(ended, w.last+1); ok {
		t.Errorf("by a request that has ended: %+v", r)
	}
	if r, ok := m.Take(t.Context(), w.last+1); ok {
		t.Errorf("without a change that has not happened: %+v", r)
	}
	if !m.Ready() {
		t.Error("the copy is gone")
	}
	// It is asked for before the change happens.
	taken := make(chan bool, 1)
	go func() {
		for {
			if _, ok := m.Take(t.Context(), w.last+1); ok || t.Context().Err() != nil {
				taken <- ok
				return
			}
		}
	}()
	before := w.last
	if at, err := w.Put(t.Context(), store.Write{Key: record.NodeKey("b"), Value: w.kept[record.NodeKey("a")].Value}); err != nil || at != before+1 {
		t.Fatal(at, err)
	}
	if !<-taken {
		t.Error("it is not taken with the change")
	}
}

// TestReadAgain: a mirror that misses changes, or cannot read one, has no copy until it has read
// the store again.
func TestReadAgain(t *testing.T) {
	for name, test := range map[string]struct {
		begin, end func(w *writer, h *held)
	}{
		"compacted": {
			func(w *writer, h *held) { h.fail(store.ErrCompacted); w.put(record.NodeKey("a"), "2") },
			func(_ *writer, h *held) { h.fail(nil) },
		},
		"damaged": {
			func(w *writer, _ *held) { w.write(record.LaunchKey("1"), []byte("{")) },
			func(w *writer, _ *held) { w.remove(record.LaunchKey("1")) },
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWriter(t)
			w.put(record.NodeKey("a"), "1")
			h := &held{Store: w.Store}
			var said safeBuffer
			m := Follow(context.Background(), h, slog.New(slog.NewTextHandler(&said, nil)))
			t.Cleanup(m.Stop)
			harness.Eventually(t, "there is a copy", m.Ready)
			test.begin(w, h)
			harness.Eventually(t, "it is told", func() bool { return strings.Contains(said.String(), "records are not followed") })
			test.end(w, h)
			w.put("last", "it has a revision")
			var got Records
			harness.Eventually(t, "there is a copy again", func() (ok bool) {
				got, ok = m.Take(t.Context(), w.last)
				return ok
			})
			if want := w.records(); !reflect.DeepEqual(sorted(got), want) {
				t.Errorf("the copy is\n%+v, want\n%+v", got, want)
			}
		})
	}
}

// safeBuffer takes what one goroutine logs and another one reads.
type safeBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Write implements io.Writer.
func (b *safeBuffer) Write(text []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(text)
}

func (b *safeBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// TestStop: a mirror that has stopped holds nothing up, also if the store does not answer.
func TestStop(t *testing.T) {
	objects := servertest.Store(t)
	m := follow(t, objects)
	if err := objects.Close(); err != nil {
		t.Fatal(err)
	}
	m.Stop()
	m.Stop()
	if m.Ready() {
		t.Error("there is a copy of a store that was closed")
	}
	if _, ok := m.Take(t.Context(), 0); ok {
		t.Error("and it is taken")
	}
}
