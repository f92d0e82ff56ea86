package metrics

import (
	"context"
	"errors"
	"time"

	"github.com/phos-gpu/phos/cluster/store"
)

// timedStore measures the requests to a store.
type timedStore struct {
	store.Store
	numbers *Controller
}

// Store returns a store whose requests are measured.
func (c *Controller) Store(objects store.Store) store.Store { return &timedStore{objects, c} }

// done notes a request.
func (s *timedStore) done(op string, began time.Time, err error) {
	result := "error"
	switch {
	case err == nil:
		result = "ok"
	case errors.Is(err, store.ErrNotFound):
		result = "not_found"
	case errors.Is(err, store.ErrConflict), errors.Is(err, store.ErrDeposed):
		result = "conflict"
	}
	s.numbers.requests.WithLabelValues(op, result).Observe(time.Since(began).Seconds())
}

// Get implements store.Store.
func (s *timedStore) Get(ctx context.Context, key string) (object store.Object, err error) {
	defer func(began time.Time) { s.done("get", began, err) }(time.Now())
	return s.Store.Get(ctx, key)
}

// List implements store.Store.
func (s *timedStore) List(ctx context.Context, prefix string) (all []store.Object, at store.Revision, err error) {
	defer func(began time.Time) { s.done("list", began, err) }(time.Now())
	return s.Store.List(ctx, prefix)
}

// Put implements store.Store.
func (s *timedStore) Put(ctx context.Context, w store.Write) (at store.Revision, err error) {
	defer func(began time.Time) { s.done("put", began, err) }(time.Now())
	return s.Store.Put(ctx, w)
}

// Delete implements store.Store.
func (s *timedStore) Delete(ctx context.Context, w store.Write) (err error) {
	defer func(began time.Time) { s.done("delete", began, err) }(time.Now())
	return s.Store.Delete(ctx, w)
}
