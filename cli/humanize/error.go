package humanize

import (
	"regexp"
	"unicode/utf8"
)

// Bounds of what an error repeats of the values that caused it.
const (
	maxQuoted = 60
	maxWord   = 160
)

var (
	longQuoted = regexp.MustCompile(`"(?:[^"\\]|\\.)*"`)
	longWord   = regexp.MustCompile(`\S+`)
)

// Error formats an error for people. Values in quotes and long words, such as a path, are
// shortened: they may come from a file of any size.
func Error(err error) string {
	text := longQuoted.ReplaceAllStringFunc(err.Error(), func(value string) string {
		if utf8.RuneCountInString(value) <= maxQuoted {
			return value
		}
		return prefix(value, maxQuoted-2) + `…"`
	})
	return longWord.ReplaceAllStringFunc(text, func(word string) string {
		if utf8.RuneCountInString(word) <= maxWord {
			return word
		}
		return prefix(word, maxWord/2) + "…" + suffix(word, maxWord/2-1)
	})
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
