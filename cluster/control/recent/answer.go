package recent

import (
	"context"
	"sync"
	"time"
)

// Answer is the answer to a question that many callers have.
type Answer[T any] struct {
	ask  func(context.Context) (T, error)
	good time.Duration

	mu    sync.Mutex
	value T
	asked time.Time // before the answer came; zero: there is none
}

// New returns what asks again if the last answer is older than good. Errors are not kept.
func New[T any](good time.Duration, ask func(context.Context) (T, error)) *Answer[T] {
	return &Answer[T]{ask: ask, good: good}
}

// Get returns the answer. Callers that come while another one asks wait for the same answer.
func (a *Answer[T]) Get(ctx context.Context) (T, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	now := time.Now()
	if !a.asked.IsZero() && now.Sub(a.asked) < a.good {
		return a.value, nil
	}
	value, err := a.ask(ctx)
	if err == nil {
		a.value, a.asked = value, now
	}
	return value, err
}
