package writer

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/phos-gpu/phos/cluster/store"
	"github.com/phos-gpu/phos/internal/ticks"
)

const (
	// retryAfter is the pause before a write is tried again at a store that does not take it.
	retryAfter = 200 * time.Millisecond
	// tryFor is how long one try may take. What etcd has taken while its own leader dies is lost, and
	// it says so only after seconds; the next try may reach the next leader.
	tryFor = 2 * time.Second
)

// Writer writes records with the epoch of one leadership. Several goroutines may use it, for
// different records.
type Writer struct {
	Store      store.Store
	Leadership store.Leadership
	Log        *slog.Logger

	refusal atomic.Pointer[refusal]
}

// refusal is why the store takes nothing, and since when.
type refusal struct {
	err   error
	since time.Time
}

// stuckAfter is how long callers wait for a store that takes nothing.
const stuckAfter = 5 * time.Second

// Stuck returns why the store has taken no record for some seconds; nil: it takes them, or may.
func (w *Writer) Stuck() error {
	r := w.refusal.Load()
	if r == nil || time.Since(r.since) < stuckAfter {
		return nil
	}
	return fmt.Errorf("the store takes no records since %s: %w", r.since.Format(time.TimeOnly), r.err)
}

// Put writes one record until the store has it. revision is that of the record, and is set to the
// new one. An error means that this leader must stop: store.ErrDeposed if it has been replaced.
func (w *Writer) Put(ctx context.Context, key string, value []byte, revision *store.Revision) error {
	leading, stop := w.whileLeading(ctx)
	defer stop()
	unsure := false // an earlier try may have been done
	for {
		next, err := w.try(leading, store.Write{
			Key: key, Value: value, Replaces: *revision, Epoch: w.Leadership.Epoch(),
		})
		switch {
		case err == nil:
			*revision = next
			w.refusal.Store(nil)
			return nil
		case errors.Is(err, store.ErrConflict) && unsure:
			if done, found := w.wasWritten(ctx, key, value); found {
				*revision = done
				w.refusal.Store(nil)
				return nil
			}
			return fmt.Errorf("write %s: %w", key, err)
		case !errors.Is(err, store.ErrUnavailable) && !errors.Is(err, store.ErrFull):
			return fmt.Errorf("write %s: %w", key, err)
		}
		unsure = true
		w.refusal.CompareAndSwap(nil, &refusal{err, time.Now()})
		w.Log.Warn("store does not take a record; trying again", "key", key, "error", err)
		if ticks.Pause(leading, retryAfter) != nil {
			return fmt.Errorf("write %s: %w", key, context.Cause(leading))
		}
	}
}

// whileLeading returns a context that ends with the leadership, too: then its cause is
// store.ErrDeposed.
func (w *Writer) whileLeading(ctx context.Context) (leading context.Context, stop func()) {
	leading, cancel := context.WithCancelCause(ctx)
	go func() {
		select {
		case <-w.Leadership.Lost():
			cancel(store.ErrDeposed)
		case <-leading.Done():
		}
	}()
	return leading, func() { cancel(nil) }
}

// try writes once. It gives up after tryFor, and at once when the leadership ends.
func (w *Writer) try(leading context.Context, write store.Write) (store.Revision, error) {
	limited, cancel := context.WithTimeout(leading, tryFor)
	defer cancel()
	revision, err := w.Store.Put(limited, write)
	switch {
	case err == nil:
		return revision, nil
	case leading.Err() != nil:
		return 0, context.Cause(leading)
	case limited.Err() != nil:
		return 0, fmt.Errorf("%w within %v", store.ErrUnavailable, tryFor)
	}
	return 0, err
}

// wasWritten reports whether an object has this value, and its revision.
func (w *Writer) wasWritten(ctx context.Context, key string, value []byte) (store.Revision, bool) {
	object, err := w.Store.Get(ctx, key)
	return object.Revision, err == nil && string(object.Value) == string(value)
}

// Delete removes a record, with one try. One that stays is there again for the next leader.
func (w *Writer) Delete(ctx context.Context, key string, revision store.Revision) {
	err := w.Store.Delete(ctx, store.Write{Key: key, Replaces: revision, Epoch: w.Leadership.Epoch()})
	if err != nil {
		w.Log.Warn("a record that is not needed stays", "key", key, "error", err)
	}
}
