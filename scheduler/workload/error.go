package workload

import (
	"fmt"
	"strconv"
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

// Error returns the place, the value and what was expected.
func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString(e.File)
	if e.Line > 0 {
		fmt.Fprintf(&b, ":%d", e.Line)
	}
	if e.Column != "" {
		fmt.Fprintf(&b, ": %s", e.Column)
	}
	b.WriteString(": ")
	if e.Has {
		fmt.Fprintf(&b, "got %s, ", strconv.Quote(e.Value))
	}
	b.WriteString("want " + e.Want)
	return b.String()
}

// shortened returns a value for an error.
func shortened(value string) string { return words.Clip(value) }
