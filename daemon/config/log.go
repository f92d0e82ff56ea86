package config

import (
	"io"
	"log/slog"
)

// Handler makes the log that the settings describe, except for where it goes.
func (l Log) Handler(to io.Writer) slog.Handler {
	var options slog.HandlerOptions
	var threshold slog.Level
	// Check has seen that the level is one.
	if threshold.UnmarshalText([]byte(l.Level)) == nil {
		options.Level = threshold
	}
	if l.Format == "json" {
		return slog.NewJSONHandler(to, &options)
	}
	return slog.NewTextHandler(to, &options)
}
