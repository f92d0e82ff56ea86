package rules

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"
)

// indefinite are words that stand for a process, a caller or a user without naming it, and words
// that readers stumble over. CONTRIBUTING.md says what to write instead.
var indefinite = regexp.MustCompile(`(?i)\b(who|whom|whoever|whomever|somebody|someone|nobody|anybody|anyone|everybody|everyone|` +
	`he|him|his|himself|anew|meanwhile|beforehand|for ever|any more)\b`)

const (
	// hitsPer10000 is how often such a word may stand in 10,000 words of comments.
	hitsPer10000 = 1
	commentWidth = 100
	codeWidth    = 120
	// longCodeShare is the share of Go lines that may be longer than codeWidth.
	longCodeShare = 0.002
)

// TestProseOfComments counts the words of all comments.
func TestProseOfComments(t *testing.T) {
	words, hits := 0, []string{}
	for _, c := range comments(t) {
		words += len(strings.Fields(c.text))
		for _, word := range indefinite.FindAllString(c.text, -1) {
			hits = append(hits,
				fmt.Sprintf("%s:%d: %q in a comment: name the process, the caller or the user", c.path, c.line, word))
		}
	}
	t.Logf("%d in %d words", len(hits), words)
	if len(hits)*10000 > hitsPer10000*words {
		t.Errorf("%d in %d words; at most %d in 10,000:\n%s", len(hits), words, hitsPer10000, strings.Join(hits, "\n"))
	}
}

// TestProseOfTexts looks at what people read without the code: documents, and texts of programs.
func TestProseOfTexts(t *testing.T) {
	for _, f := range files(t, func(f file) bool { return f.has(".md") && !under(f.path, "bench/results") }) {
		for i, line := range strings.Split(string(f.text), "\n") {
			// A word in backticks is spoken of, not used.
			if word := indefinite.FindString(quotedWords.ReplaceAllString(line, "")); word != "" {
				t.Errorf("%s:%d: %q: name the process, the caller or the user", f.path, i+1, word)
			}
		}
	}
	for _, text := range texts(t) {
		if word := indefinite.FindString(text.text); word != "" {
			t.Errorf("%s:%d: %q in a text: name the process, the caller or the user", text.path, text.line, word)
		}
	}
}

var quotedWords = regexp.MustCompile("`[^`]*`")

// TestCommentWidth: a comment that is longer than a line of a terminal is not read.
func TestCommentWidth(t *testing.T) {
	for _, c := range comments(t) {
		if n := utf8.RuneCountInString(c.wholeLine); c.alone && n > commentWidth && !directive.MatchString(c.text) {
			t.Errorf("%s:%d: a comment of %d columns of at most %d", c.path, c.line, n, commentWidth)
		}
	}
}

// directive matches comments that cannot be wrapped: for tools, addresses, and preformatted text.
var directive = regexp.MustCompile(`^(//(go:|nolint|export|line|\t)|#!|#cgo|# shellcheck)|https?://`)

func TestCodeWidth(t *testing.T) {
	lines, long := 0, []string{}
	for _, s := range sources(t, func(file) bool { return true }) {
		for i, line := range strings.Split(string(s.text), "\n") {
			lines++
			if utf8.RuneCountInString(line) > codeWidth {
				long = append(long, fmt.Sprintf("%s:%d", s.path, i+1))
			}
		}
	}
	t.Logf("%d of %d lines have more than %d columns", len(long), lines, codeWidth)
	if float64(len(long)) > longCodeShare*float64(lines) {
		t.Errorf("%d of %d lines have more than %d columns; at most %.0f:\n%s",
			len(long), lines, codeWidth, longCodeShare*float64(lines), strings.Join(long, "\n"))
	}
}

// TestDocumentWidth: documents are wrapped, but for tables, literal text and links.
func TestDocumentWidth(t *testing.T) {
	for _, f := range files(t, func(f file) bool { return f.has(".md") && !under(f.path, "bench/results") }) {
		literal := false
		for i, line := range strings.Split(string(f.text), "\n") {
			if strings.HasPrefix(strings.TrimSpace(line), "```") {
				literal = !literal
			}
			free := literal || strings.HasPrefix(line, "|") || strings.HasPrefix(line, "    ") || strings.Contains(line, "](")
			if n := utf8.RuneCountInString(line); n > commentWidth && !free {
				t.Errorf("%s:%d: a line of %d columns of at most %d", f.path, i+1, n, commentWidth)
			}
		}
	}
}
