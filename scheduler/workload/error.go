package workload

import (
	"fmt"
	"strings"

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
	maxFile   = 60
	maxColumn = 40
)

// Error returns the place, the value and what was expected, in at most words.MaxError characters.
func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString(words.Tail(e.File, maxFile))
	if e.Line > 0 {
		fmt.Fprintf(&b, ":%d", e.Line)
	}
	if e.Column != "" {
		fmt.Fprintf(&b, ": %s", words.Cut(e.Column, maxColumn))
	}
	b.WriteString(": ")
	if e.Has {
		fmt.Fprintf(&b, "got %s, ", words.Quoted(e.Value))
	}
	b.WriteString("want " + e.Want)
	return words.Cut(b.String(), words.MaxError)
}

// shortened returns a value for an error.
func shortened(value string) string { return words.Clip(value) }
