package humanize

import (
	"regexp"
	"strconv"
	"strings"
)

// Kernel returns the name of a kernel as its source has it, without parameters: "at::native::fill".
// Template arguments are shown as <...>. A name that is not mangled, or that Kernel does not
// understand, is returned as it is.
//
// This is the part of the Itanium C++ ABI's mangling that names of kernels consist of: nested and
// unscoped source names.
func Kernel(mangled string) string {
	rest, ok := strings.CutPrefix(mangled, "_Z")
	if !ok {
		return mangled
	}
	rest, nested := strings.CutPrefix(rest, "N")
	var parts []string
	for {
		name, after := sourceName(rest)
		if name == "" {
			break
		}
		parts, rest = append(parts, name), after
		if strings.HasPrefix(rest, "I") {
			// What follows the arguments of a template is known only by parsing them.
			parts[len(parts)-1] += "<...>"
			return strings.Join(parts, "::")
		}
		if !nested {
			break
		}
	}
	if len(parts) == 0 || nested && !strings.HasPrefix(rest, "E") {
		return mangled
	}
	return strings.Join(parts, "::")
}

// symbol matches mangled names in a text.
var symbol = regexp.MustCompile(`\b_Z[0-9A-Za-z_.$]+`)

// Kernels replaces the symbols of kernels in a text by their names.
func Kernels(text string) string { return symbol.ReplaceAllStringFunc(text, Kernel) }

// sourceName splits a name off: its length in digits, then its letters.
func sourceName(text string) (name, rest string) {
	digits := 0
	for digits < len(text) && '0' <= text[digits] && text[digits] <= '9' {
		digits++
	}
	length, err := strconv.Atoi(text[:digits])
	if err != nil || length == 0 || length > len(text)-digits {
		return "", text
	}
	name, rest = text[digits:digits+length], text[digits+length:]
	if strings.HasPrefix(name, "_GLOBAL__N") {
		name = "(anonymous namespace)"
	}
	return name, rest
}
