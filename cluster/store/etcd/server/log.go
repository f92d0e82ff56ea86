package server

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"slices"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/phos-gpu/phos/internal/words"
)

// newLogger returns a logger for etcd that writes warnings and errors into another one.
func newLogger(to *slog.Logger, fault *fault) *zap.Logger {
	return zap.New(&bridge{to: to}, zap.WithFatalHook(fault), zap.WithPanicHook(fault))
}

// bridge is the core of a zap logger that passes entries on to slog.
type bridge struct {
	to    *slog.Logger
	known []zapcore.Field
}

// Enabled says which levels are passed on. What etcd calls information is about its inside.
func (b *bridge) Enabled(level zapcore.Level) bool { return level >= zapcore.WarnLevel }

// With returns a core that adds fields to each entry.
func (b *bridge) With(fields []zapcore.Field) zapcore.Core {
	return &bridge{to: b.to, known: slices.Concat(b.known, fields)}
}

// always are warnings that etcd gives at each start: about tokens, which nothing here uses, and
// about unix sockets, which need no certificates.
var always = []string{
	"simple token is not cryptographically signed",
	"scheme is http or unix while key and cert files are present; ignoring key and cert files",
	"scheme is http or unix while --client-cert-auth is enabled; ignoring client cert auth for this URL",
}

// Check adds this core to an entry that it wants.
func (b *bridge) Check(entry zapcore.Entry, checked *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if !b.Enabled(entry.Level) || slices.Contains(always, entry.Message) {
		return checked
	}
	return checked.AddCore(entry, b)
}

// Write passes an entry on.
func (b *bridge) Write(entry zapcore.Entry, fields []zapcore.Field) error {
	if ended(entry, fields) {
		return nil
	}
	level := slog.LevelWarn
	if entry.Level > zapcore.WarnLevel {
		level = slog.LevelError
	}
	b.to.LogAttrs(context.Background(), level, "etcd: "+entry.Message, attributes(slices.Concat(b.known, fields))...)
	return nil
}

// ended reports whether an entry says only that a listener was closed, as Close does.
func ended(entry zapcore.Entry, fields []zapcore.Field) bool {
	return entry.Message == "setting up serving from embedded etcd failed." &&
		slices.ContainsFunc(fields, func(field zapcore.Field) bool {
			err, ok := field.Interface.(error)
			return ok && (errors.Is(err, net.ErrClosed) || errors.Is(err, http.ErrServerClosed))
		})
}

// Sync does nothing: slog has no buffer.
func (b *bridge) Sync() error { return nil }

// attributes converts fields, in the order of their names. A long text is clipped.
func attributes(fields []zapcore.Field) []slog.Attr {
	encoder := zapcore.NewMapObjectEncoder()
	for _, field := range fields {
		field.AddTo(encoder)
	}
	var converted []slog.Attr
	for _, name := range slices.Sorted(maps.Keys(encoder.Fields)) {
		value := encoder.Fields[name]
		if text, ok := value.(string); ok {
			value = words.ClipTo(text, 500)
		}
		converted = append(converted, slog.Any(name, value))
	}
	return converted
}
