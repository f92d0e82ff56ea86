package workload

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Error is something in a file that cannot be understood.
type Error struct {
	File string

	// Line counts from 1; 0 where the file as a whole is meant.
	Line int

	// Column is the column's name, or in JSON the path of keys; empty where the line as a whole is
	// meant.
	Column string

	// Value is what stands there, shortened; Has says whether anything does.
	Value string
	Has   bool

	// Want is what was expected there.
	Want string
}

// Error says where, what stands there, and what should.
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

// maxShown bounds how much of a wrong value an error repeats, in bytes.
const maxShown = 60

// shortened is a value as an error repeats it.
func shortened(value string) string {
	if len(value) <= maxShown {
		return value
	}
	cut := maxShown
	for cut > 0 && !utf8.RuneStart(value[cut]) {
		cut--
	}
	return value[:cut] + "…"
}
