package joblog

import (
	"context"
	"log/slog"
	"sync/atomic"
)

// Late is a log whose destination changes: who logs may have it before it is known where the job
// wants its log.
type Late struct {
	target *atomic.Pointer[slog.Handler]
	// with are the attributes and groups that were added, in order.
	with []func(slog.Handler) slog.Handler
}

// NewLate makes one that goes to first until it is told otherwise.
func NewLate(first slog.Handler) Late {
	l := Late{target: new(atomic.Pointer[slog.Handler])}
	l.Set(first)
	return l
}

// Set changes where everything goes from now on.
func (l Late) Set(target slog.Handler) { l.target.Store(&target) }

func (l Late) handler() slog.Handler {
	h := *l.target.Load()
	for _, add := range l.with {
		h = add(h)
	}
	return h
}

// Enabled asks the destination.
func (l Late) Enabled(ctx context.Context, level slog.Level) bool {
	return (*l.target.Load()).Enabled(ctx, level)
}

// Handle passes a record on.
func (l Late) Handle(ctx context.Context, record slog.Record) error {
	return l.handler().Handle(ctx, record)
}

func (l Late) adding(add func(slog.Handler) slog.Handler) Late {
	return Late{l.target, append(l.with[:len(l.with):len(l.with)], add)}
}

// WithAttrs keeps the attributes for whatever the destination will be.
func (l Late) WithAttrs(attrs []slog.Attr) slog.Handler {
	return l.adding(func(h slog.Handler) slog.Handler { return h.WithAttrs(attrs) })
}

// WithGroup keeps the group for whatever the destination will be.
func (l Late) WithGroup(name string) slog.Handler {
	return l.adding(func(h slog.Handler) slog.Handler { return h.WithGroup(name) })
}
