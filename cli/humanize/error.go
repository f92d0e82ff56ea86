package humanize

import (
	"errors"
	"io/fs"
	"os"
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/phos-gpu/phos/internal/words"
)

// Bounds of what an error repeats of the values that caused it.
const (
	maxQuoted = words.MaxValue + len(`"…"`)
	maxWord   = 160
	// maxErrorLine bounds a line. Only values that are neither quoted nor words reach it.
	maxErrorLine = 600
)

var (
	longQuoted = regexp.MustCompile(`"(?:[^"\\]|\\.)*"`)
	longWord   = regexp.MustCompile(`\S+`)
)

// enough is how many characters an error should have. Where values make it longer, less of them is
// repeated.
const (
	enough      = 200
	shortQuoted = 24
	shortWord   = 100
)

// Error formats an error for people. Values in quotes, paths and long words are shortened: they may
// come from a file or a command line of any size. What could control a terminal is replaced: names
// of files and of processes may come from another user.
func Error(err error) string {
	text := shorten(err, maxQuoted, maxWord)
	if utf8.RuneCountInString(text) > enough {
		text = shorten(err, shortQuoted, shortWord)
	}
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		lines[i] = middle(Printable(line), maxErrorLine)
	}
	return strings.Join(lines, "\n")
}

// shorten returns the text of an error with quoted values and words of at most so many characters.
func shorten(err error, quoted, word int) string {
	text := err.Error()
	for _, path := range paths(err) {
		if short := middle(path, word); short != path {
			text = strings.ReplaceAll(text, path, short)
		}
	}
	text = longQuoted.ReplaceAllStringFunc(text, func(value string) string {
		if utf8.RuneCountInString(value) <= quoted {
			return value
		}
		return prefix(value, quoted-2) + `…"`
	})
	return longWord.ReplaceAllStringFunc(text, func(value string) string { return middle(value, word) })
}

// paths returns the paths that errors of package os in the chain name. They may have spaces.
func paths(err error) (found []string) {
	var path *fs.PathError
	if errors.As(err, &path) {
		found = append(found, path.Path)
	}
	var link *os.LinkError
	if errors.As(err, &link) {
		found = append(found, link.Old, link.New)
	}
	return found
}

// middle returns a text of at most so many characters: a longer one without its middle.
func middle(text string, most int) string {
	if utf8.RuneCountInString(text) <= most {
		return text
	}
	return prefix(text, most/2) + "…" + suffix(text, most/2-1)
}

// prefix returns the first n characters of a text that has more. A character that was escaped stays
// whole.
func prefix(text string, n int) string {
	runes := []rune(text)[:n]
	escaped := 0
	for escaped < n && runes[n-1-escaped] == '\\' {
		escaped++
	}
	return string(runes[:n-escaped%2])
}

// suffix returns the last n characters of a text that has more.
func suffix(text string, n int) string {
	runes := []rune(text)
	return string(runes[len(runes)-n:])
}
