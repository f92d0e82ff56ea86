package words

import (
	"log/slog"
	"strings"
	"unicode"
)

// EscapeControls is a slog.HandlerOptions.ReplaceAttr for logs in JSON. It replaces the hidden
// characters that JSON does not escape, from U+007F on: some terminals obey them, others turn the
// direction of a line, and a value may be another user's.
func EscapeControls(_ []string, a slog.Attr) slog.Attr {
	switch value := a.Value.Any().(type) {
	case string:
		a.Value = slog.StringValue(withoutControls(value))
	case error:
		a.Value = slog.StringValue(withoutControls(value.Error()))
	}
	return a
}

// withoutControls replaces these characters.
func withoutControls(text string) string {
	return strings.Map(func(r rune) rune {
		if r >= 0x7f && Hidden(r) {
			return unicode.ReplacementChar
		}
		return r
	}, text)
}
