package worker

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// limited is a log that a program cannot flood by making errors: beyond a burst, so many records a second pass, and the
// next that passes says how many did not.
type limited struct {
	slog.Handler
	bucket *bucket
}

const (
	logBurst     = 200
	logPerSecond = 10
)

type bucket struct {
	mu      sync.Mutex
	left    float64
	filled  time.Time
	dropped int
}

func newLimited(handler slog.Handler) limited {
	return limited{handler, &bucket{left: logBurst}}
}

// take says whether a record may pass at a time, and how many before it could not.
func (b *bucket) take(now time.Time) (dropped int, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.filled.IsZero() {
		b.left = min(logBurst, b.left+max(0, now.Sub(b.filled).Seconds())*logPerSecond)
	}
	b.filled = now
	if b.left < 1 {
		b.dropped++
		return 0, false
	}
	b.left--
	dropped, b.dropped = b.dropped, 0
	return dropped, true
}

// Handle passes a record on, or counts it.
func (l limited) Handle(ctx context.Context, record slog.Record) error {
	dropped, ok := l.bucket.take(record.Time)
	if !ok {
		return nil
	}
	if dropped > 0 {
		record = record.Clone()
		record.AddAttrs(slog.Int("dropped", dropped))
	}
	return l.Handler.Handle(ctx, record)
}

// WithAttrs shares the limit.
func (l limited) WithAttrs(attrs []slog.Attr) slog.Handler {
	return limited{l.Handler.WithAttrs(attrs), l.bucket}
}

// WithGroup shares the limit.
func (l limited) WithGroup(name string) slog.Handler {
	return limited{l.Handler.WithGroup(name), l.bucket}
}
