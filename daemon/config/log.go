package config

import (
	"io"
	"log/slog"

	"github.com/phos-gpu/phos/internal/words"
)

// Values of Log.Format.
const (
	logText = "text"
	LogJSON = "json"
)

// Threshold returns the level below which nothing is logged.
func (l Log) Threshold() slog.Level {
	var threshold slog.Level
	// Check has seen that the level is one.
	_ = threshold.UnmarshalText([]byte(l.Level))
	return threshold
}

// Handler returns a handler that writes in the chosen form.
func (l Log) Handler(to io.Writer) slog.Handler { return l.HandlerAt(to, l.Threshold()) }

// HandlerAt is Handler with a level that may change.
func (l Log) HandlerAt(to io.Writer, level slog.Leveler) slog.Handler {
	options := slog.HandlerOptions{Level: level}
	if l.Format == LogJSON {
		options.ReplaceAttr = words.EscapeControls // the other form quotes them
		return slog.NewJSONHandler(to, &options)
	}
	return slog.NewTextHandler(to, &options)
}
