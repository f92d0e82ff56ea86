package joblog

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"
)

// TestLogLimit floods a log and checks what passes at once and a second later.
func TestLogLimit(t *testing.T) {
	var text bytes.Buffer
	var handler slog.Handler = NewLimited(slog.NewTextHandler(&text, nil))
	now := time.Unix(1000, 0)
	say := func(handler slog.Handler, at time.Time) {
		if err := handler.Handle(context.Background(), slog.NewRecord(at, slog.LevelWarn, "wrong again", 0)); err != nil {
			t.Fatal(err)
		}
	}
	other := handler.WithAttrs([]slog.Attr{slog.String("job", "x")}) // shares the limit
	for range logBurst {
		say(handler, now)
		say(other, now)
	}
	if got := strings.Count(text.String(), "wrong again"); got != logBurst {
		t.Errorf("%d records passed, want %d", got, logBurst)
	}
	text.Reset()
	later := now.Add(time.Second)
	for range 2 * logPerSecond {
		say(handler, later)
	}
	if got := strings.Count(text.String(), "wrong again"); got != logPerSecond {
		t.Errorf("%d records passed a second later, want %d", got, logPerSecond)
	}
	if !strings.Contains(text.String(), "dropped=200") {
		t.Errorf("no count of dropped records in %s", text.String())
	}
}
