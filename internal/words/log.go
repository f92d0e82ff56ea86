package words

import (
	"log/slog"
	"strings"
	"unicode"
)

// EscapeControls is a slog.HandlerOptions.ReplaceAttr for logs in JSON. It replaces the control
// characters that JSON does not escape, U+007F to U+009F: some terminals obey them, and a value may
// be another user's.
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
		if r >= 0x7f && unicode.IsControl(r) {
			return unicode.ReplacementChar
		}
		return r
	}, text)
}
