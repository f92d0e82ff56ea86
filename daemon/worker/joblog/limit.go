package joblog

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// Limited is a rate-limited log handler, so that a program cannot flood the log with errors. After
// a burst it passes logPerSecond records a second. The next record that passes says how many were
// dropped.
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

// NewLimited returns a handler that limits the rate of records to another one.
func NewLimited(handler slog.Handler) Limited {
	return Limited{handler, &bucket{left: logBurst}}
}

// take reports whether a record may pass now, and how many were dropped before it.
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

// Handle passes a record on, or drops and counts it.
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

// WithAttrs returns a handler that shares the limit.
func (l Limited) WithAttrs(attrs []slog.Attr) slog.Handler {
	return Limited{l.Handler.WithAttrs(attrs), l.bucket}
}

// WithGroup returns a handler that shares the limit.
func (l Limited) WithGroup(name string) slog.Handler {
	return Limited{l.Handler.WithGroup(name), l.bucket}
}
