package workload

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/phos-gpu/phos/internal/words"
)

// Error is invalid input in a file.
type Error struct {
	File string

	// Line counts from 1; 0 means the whole file.
	Line int

	// Column is the column's name, or in JSON the path of keys; empty means the whole line.
	Column string

	// Value is the invalid value, shortened; Has reports whether there is one.
	Value string
	Has   bool

	// Want is what was expected.
	Want string
}

// The most characters of an error, and of its parts: a file may be hostile, or not a trace at all.
const (
	maxError  = 200
	maxFile   = 60
	maxColumn = 40
)

// Error returns the place, the value and what was expected, in at most maxError characters.
func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString(tail(e.File, maxFile))
	if e.Line > 0 {
		fmt.Fprintf(&b, ":%d", e.Line)
	}
	if e.Column != "" {
		fmt.Fprintf(&b, ": %s", cut(e.Column, maxColumn))
	}
	b.WriteString(": ")
	if e.Has {
		fmt.Fprintf(&b, "got %s, ", quoted(e.Value))
	}
	b.WriteString("want " + e.Want)
	return cut(b.String(), maxError)
}

// quoted returns a value between quotes. A character that must be escaped counts as long as its
// escape.
func quoted(value string) string {
	value = words.Clip(value) // the loop's time is quadratic in the length
	out := strconv.Quote(value)
	for text := strings.TrimSuffix(value, ellipsis); utf8.RuneCountInString(out) > words.MaxValue+len(`"…"`) &&
		text != ""; {
		_, last := utf8.DecodeLastRuneInString(text)
		text = text[:len(text)-last]
		out = strconv.Quote(text + ellipsis)
	}
	return out
}

// ellipsis stands for what was cut off.
const ellipsis = "…"

// shortened returns a value for an error.
func shortened(value string) string { return words.Clip(value) }

// cut returns the first characters of a text.
func cut(text string, most int) string {
	if utf8.RuneCountInString(text) <= most {
		return text
	}
	return string([]rune(text)[:most-1]) + ellipsis
}

// tail returns the last characters of a text.
func tail(text string, most int) string {
	runes := []rune(text)
	if len(runes) <= most {
		return text
	}
	return ellipsis + string(runes[len(runes)-most+1:])
}
