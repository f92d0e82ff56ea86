package ckpt_test

import (
	"context"
	"log/slog"
)

// stepWatcher is a log handler that waits for the names of steps.
type stepWatcher struct {
	slog.Handler
	reached func(name string)
}

// watch returns a log that tells the stage when a step is reached. From then on the fault applies,
// or the checkpoint is cancelled.
func (s *stage) watch(step string, giveUp bool) *slog.Logger {
	return slog.New(stepWatcher{slog.DiscardHandler, func(name string) {
		if name != step {
			return
		}
		s.mu.Lock()
		s.faulted = true
		s.mu.Unlock()
		if giveUp {
			s.cancel()
		}
	}})
}

func (w stepWatcher) Enabled(context.Context, slog.Level) bool { return true }

func (w stepWatcher) Handle(_ context.Context, record slog.Record) error {
	if record.Message == "step" {
		record.Attrs(func(a slog.Attr) bool {
			w.reached(a.Value.String())
			return true
		})
	}
	return nil
}
