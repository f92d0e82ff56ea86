package writer

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/phos-gpu/phos/cluster/store"
)

// retryAfter is the pause before a write is tried again at a store that does not take it.
const retryAfter = 200 * time.Millisecond

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
	unsure := false // an earlier try may have been done
	for {
		next, err := w.Store.Put(ctx, store.Write{
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
				return nil
			}
			return fmt.Errorf("write %s: %w", key, err)
		case !errors.Is(err, store.ErrUnavailable) && !errors.Is(err, store.ErrFull):
			return fmt.Errorf("write %s: %w", key, err)
		}
		unsure = true
		w.refusal.CompareAndSwap(nil, &refusal{err, time.Now()})
		w.Log.Warn("store does not take a record; trying again", "key", key, "error", err)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-w.Leadership.Lost():
			return fmt.Errorf("write %s: %w", key, store.ErrDeposed)
		case <-time.After(retryAfter):
		}
	}
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
