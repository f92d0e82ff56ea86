package rules

import (
	"fmt"
	"go/ast"
	"go/token"
	"regexp"
	"slices"
	"strconv"
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

// TestProseOfComments counts the words of all comments, of Go, C, protocol buffers and shells.
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

// TestProseOfTexts looks at what people read without the code: documents, help, errors, logs.
// All of the latter are string literals of the product.
func TestProseOfTexts(t *testing.T) {
	for _, f := range files(t, func(f file) bool { return f.has(".md") && !under(f.path, "bench/results") }) {
		for i, line := range strings.Split(string(f.text), "\n") {
			// A word in backticks is spoken of, not used.
			if word := indefinite.FindString(quotedWords.ReplaceAllString(line, "")); word != "" {
				t.Errorf("%s:%d: %q: name the process, the caller or the user", f.path, i+1, word)
			}
		}
	}
	for _, s := range sources(t, func(f file) bool { return product(f) && !under(f.path, "tests") }) {
		ast.Inspect(s.syntax, func(node ast.Node) bool {
			literal, ok := node.(*ast.BasicLit)
			if !ok || literal.Kind != token.STRING {
				return true
			}
			if text, err := strconv.Unquote(literal.Value); err == nil && indefinite.MatchString(text) {
				t.Errorf("%s:%d: %q in a text: name the process, the caller or the user",
					s.path, s.set.Position(literal.Pos()).Line, indefinite.FindString(text))
			}
			return true
		})
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

// comment is one line of a comment.
type comment struct {
	path      string
	line      int
	text      string
	wholeLine string
	alone     bool // there is no code before it
}

// comments finds all lines of comments in the hand-written sources.
func comments(t *testing.T) (found []comment) {
	t.Helper()
	for _, s := range sources(t, func(file) bool { return true }) {
		lines := strings.Split(string(s.text), "\n")
		for _, group := range s.syntax.Comments {
			for _, c := range group.List {
				first := s.set.Position(c.Pos()).Line
				for i, text := range strings.Split(c.Text, "\n") {
					found = append(found, lineOf(s.path, lines, first+i, text))
				}
			}
		}
	}
	c := func(f file) bool { return f.has(".c") || f.has(".h") || f.has(".cu") || f.has(".proto") }
	for _, f := range files(t, func(f file) bool { return c(f) && !f.generated() }) {
		lines := strings.Split(string(f.text), "\n")
		for _, match := range cComment.FindAllStringSubmatchIndex(string(f.text), -1) {
			if match[2] < 0 {
				continue // a string
			}
			first := strings.Count(string(f.text[:match[2]]), "\n") + 1
			for i, text := range strings.Split(string(f.text[match[2]:match[3]]), "\n") {
				found = append(found, lineOf(f.path, lines, first+i, text))
			}
		}
	}
	for _, f := range files(t, func(f file) bool { return slices.ContainsFunc(hashCommented, f.has) }) {
		lines := strings.Split(string(f.text), "\n")
		for i, line := range lines {
			if text := strings.TrimSpace(line); strings.HasPrefix(text, "#") {
				found = append(found, lineOf(f.path, lines, i+1, text))
			}
		}
	}
	return found
}

// hashCommented are the endings of files whose comments begin with #.
var hashCommented = []string{
	".sh", "Makefile", ".yaml", ".toml", ".service", "scripts/pycuda.txt",
	"scripts/hooks/commit-msg",
}

// cComment finds comments, and strings, in which there is none.
var cComment = regexp.MustCompile(`(?s)"(?:[^"\\\n]|\\.)*"|(//[^\n]*|/\*.*?\*/)`)

func lineOf(path string, lines []string, line int, text string) comment {
	whole := lines[line-1]
	return comment{path, line, text, whole, strings.HasPrefix(strings.TrimSpace(whole), strings.TrimSpace(text))}
}
