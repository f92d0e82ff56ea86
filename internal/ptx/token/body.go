package token

import "strings"

// SkipBody moves from after an opening brace to after the closing one. It returns false if there is
// no closing brace, or if a directive in the body affects the module.
func (l *Lexer) SkipBody() bool {
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
		case c == '.' && concernsModule(l.src[l.off+1:]):
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

// concernsModule reports whether a directive declares something outside the function.
func concernsModule(directive string) bool {
	for _, word := range [...]string{"global", "const", "extern", "visible", "weak", "common"} {
		rest, found := strings.CutPrefix(directive, word)
		if found && (rest == "" || classes[rest[0]]&classWord == 0) && !strings.HasPrefix(rest, ".") &&
			!strings.HasPrefix(rest, "::") {
			return true
		}
	}
	return false
}
