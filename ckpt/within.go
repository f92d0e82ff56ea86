package ckpt

import (
	"context"
	"sync"
	"time"
)

// within is how long parts of one step took that are done at the same time.
type within struct {
	mu      sync.Mutex
	longest map[string]time.Duration
}

// timed makes a work count as a part. A part that was tried again counts with its last try.
func (w *within) timed(part string, do func(context.Context) error) func(context.Context) error {
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

// anew forgets what was measured.
func (w *within) anew() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.longest = make(map[string]time.Duration)
}
