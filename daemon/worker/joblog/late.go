package joblog

import (
	"context"
	"log/slog"
	"sync/atomic"
)

// Late is a log handler whose destination can change. Loggers can use it before the job's log_path
// is known.
type Late struct {
	target *atomic.Pointer[slog.Handler]
	// with adds the attributes and groups, in order.
	with []func(slog.Handler) slog.Handler
}

// NewLate returns a handler that passes records to first until Set is called.
func NewLate(first slog.Handler) Late {
	l := Late{target: new(atomic.Pointer[slog.Handler])}
	l.Set(first)
	return l
}

// Set changes the destination of all later records.
func (l Late) Set(target slog.Handler) { l.target.Store(&target) }

// handler returns the present destination, with the attributes and groups of this logger.
func (l Late) handler() slog.Handler {
	h := *l.target.Load()
	for _, add := range l.with {
		h = add(h)
	}
	return h
}

// Enabled reports whether the destination handles the level.
func (l Late) Enabled(ctx context.Context, level slog.Level) bool {
	return (*l.target.Load()).Enabled(ctx, level)
}

// Handle passes a record to the destination.
func (l Late) Handle(ctx context.Context, record slog.Record) error {
	return l.handler().Handle(ctx, record)
}

// adding returns a handler with one more attribute set or group.
func (l Late) adding(add func(slog.Handler) slog.Handler) Late {
	return Late{l.target, append(l.with[:len(l.with):len(l.with)], add)}
}

// WithAttrs returns a handler that adds the attributes, also for later destinations.
func (l Late) WithAttrs(attrs []slog.Attr) slog.Handler {
	return l.adding(func(h slog.Handler) slog.Handler { return h.WithAttrs(attrs) })
}

// WithGroup returns a handler that adds the group, also for later destinations.
func (l Late) WithGroup(name string) slog.Handler {
	return l.adding(func(h slog.Handler) slog.Handler { return h.WithGroup(name) })
}
