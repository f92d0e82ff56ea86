package joblog

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// Limited is a log that a program cannot flood by making errors: beyond a burst, so many records a
// second pass, and the next that passes says how many did not.
type Limited struct {
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

// NewLimited limits what reaches a handler.
func NewLimited(handler slog.Handler) Limited {
	return Limited{handler, &bucket{left: logBurst}}
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
func (l Limited) Handle(ctx context.Context, record slog.Record) error {
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
func (l Limited) WithAttrs(attrs []slog.Attr) slog.Handler {
	return Limited{l.Handler.WithAttrs(attrs), l.bucket}
}

// WithGroup shares the limit.
func (l Limited) WithGroup(name string) slog.Handler {
	return Limited{l.Handler.WithGroup(name), l.bucket}
}
