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
func (t *timing) timed(part string, do func(context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error {
		begin := time.Now()
		defer func() {
			t.mu.Lock()
			defer t.mu.Unlock()
			t.longest[part] = max(t.longest[part], time.Since(begin))
		}()
		return do(ctx)
	}
}

// reset forgets all durations, before a retry.
func (t *timing) reset() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.longest = make(map[string]time.Duration)
}
