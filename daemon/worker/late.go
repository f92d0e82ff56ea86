package worker

import (
	"context"
	"log/slog"
	"sync/atomic"
)

// late is a log whose destination changes: who logs may have it before it is known where the job wants its log.
type late struct {
	target *atomic.Pointer[slog.Handler]
	// with are the attributes and groups that were added, in order.
	with []func(slog.Handler) slog.Handler
}

func newLate(first slog.Handler) late {
	l := late{target: new(atomic.Pointer[slog.Handler])}
	l.set(first)
	return l
}

// set changes where everything goes from now on.
func (l late) set(target slog.Handler) { l.target.Store(&target) }

func (l late) handler() slog.Handler {
	h := *l.target.Load()
	for _, add := range l.with {
		h = add(h)
	}
	return h
}

// Enabled asks the destination.
func (l late) Enabled(ctx context.Context, level slog.Level) bool {
	return (*l.target.Load()).Enabled(ctx, level)
}

// Handle passes a record on.
func (l late) Handle(ctx context.Context, record slog.Record) error {
	return l.handler().Handle(ctx, record)
}

func (l late) adding(add func(slog.Handler) slog.Handler) late {
	return late{l.target, append(l.with[:len(l.with):len(l.with)], add)}
}

// WithAttrs keeps the attributes for whatever the destination will be.
func (l late) WithAttrs(attrs []slog.Attr) slog.Handler {
	return l.adding(func(h slog.Handler) slog.Handler { return h.WithAttrs(attrs) })
}

// WithGroup keeps the group for whatever the destination will be.
func (l late) WithGroup(name string) slog.Handler {
	return l.adding(func(h slog.Handler) slog.Handler { return h.WithGroup(name) })
}
