package words

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"
)

// TestEscapeControls: no control character reaches a log in JSON, whichever form a value has.
func TestEscapeControls(t *testing.T) {
	const name = "a\u009b2J\x7f\u202e\x1b[2J\nb é"
	var log bytes.Buffer
	slog.New(slog.NewJSONHandler(&log, &slog.HandlerOptions{ReplaceAttr: EscapeControls})).
		Error(name, "command", name, "error", errors.New(name), "pid", 7)
	text := strings.TrimSuffix(log.String(), "\n")
	if strings.ContainsAny(text, "\u009b\x7f\u202e\x1b\n") || strings.Count(text, `a�2J��\u001b[2J\nb é`) != 3 ||
		!strings.Contains(text, `"pid":7`) {
		t.Errorf("got %q", text)
	}
}
