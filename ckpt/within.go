package ckpt

import (
	"context"
	"sync"
	"time"
)

// timing records how long the parallel parts of a step took.
type timing struct {
	mu      sync.Mutex
	longest map[string]time.Duration
}

// timed wraps work so that its duration counts for part. Of several calls the longest counts.
func (w *timing) timed(part string, do func(context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error {
		begin := time.Now()
		defer func() {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.longest[part] = max(w.longest[part], time.Since(begin))
		}()
		return do(ctx)
	}
}

// reset forgets all durations, before a retry.
func (w *timing) reset() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.longest = make(map[string]time.Duration)
}
