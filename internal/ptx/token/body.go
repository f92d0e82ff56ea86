package token

import (
	"slices"
	"strings"
)

// SkipBody moves from after an opening brace to after the closing one. It returns false if there is
// no closing brace, or if a directive in the body affects the module, or shared memory of a
// function that is no entry.
func (l *Lexer) SkipBody(entry bool) bool {
	var more []string
	if !entry {
		more = []string{"shared"}
	}
	for depth := 1; depth > 0; {
		if !l.skipSpace() || l.off >= len(l.src) {
			return false
		}
		switch c := l.src[l.off]; {
		case c == '{':
			depth++
		case c == '}':
			depth--
		case c == '"':
			if l.quoted(); l.Kind == Bad {
				return false
			}
			continue
		case c == '.' && concerns(l.src[l.off+1:], more):
			return false
		}
		l.off++
		l.skipPlain()
	}
	return true
}

// skipPlain moves to the next byte that may end a word or start a statement.
func (l *Lexer) skipPlain() {
	for l.off < len(l.src) {
		switch l.src[l.off] {
		case ' ', '\t', '\n', '/', '{', '}', '"', ';', '#':
			return
		}
		l.off++
	}
}

// ofModule are the directives that declare something outside the function.
var ofModule = []string{"global", "const", "extern", "visible", "weak", "common"}

// concerns reports whether a directive is one of ofModule, or of some more.
func concerns(directive string, more []string) bool {
	for _, word := range slices.Concat(ofModule, more) {
		rest, found := strings.CutPrefix(directive, word)
		if found && (rest == "" || classes[rest[0]]&classWord == 0) && !strings.HasPrefix(rest, ".") &&
			!strings.HasPrefix(rest, "::") {
			return true
		}
	}
	return false
}
