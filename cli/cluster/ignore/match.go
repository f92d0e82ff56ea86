package ignore

import "strings"

// match reports whether a pattern matches a whole path. * and ? do not match a slash; ** between
// slashes matches any number of directories.
func match(pattern, name string) bool {
	m := matcher{}
	return m.match(pattern, name, true)
}

// maxSteps bounds the work for one pattern: many stars make it grow fast. A pattern that takes more
// matches nothing.
const maxSteps = 1 << 20

// matcher counts the steps of a match.
type matcher struct{ steps int }

// match matches the rest of a pattern. start means that the pattern is at its begin or follows a
// slash.
func (m *matcher) match(pattern, name string, start bool) bool {
	for len(pattern) > 0 {
		if m.steps++; m.steps > maxSteps {
			return false
		}
		if pattern[0] == '*' {
			return m.stars(pattern, name, start)
		}
		rest, ok := one(pattern, name)
		if !ok {
			return false
		}
		start = pattern[0] == '/'
		pattern, name = rest, name[1:]
	}
	return name == ""
}

// stars matches a pattern that begins with stars.
func (m *matcher) stars(pattern, name string, start bool) bool {
	rest := strings.TrimLeft(pattern, "*")
	deep := len(pattern)-len(rest) > 1 && start && (rest == "" || rest[0] == '/' || strings.HasPrefix(rest, `\/`))
	if deep && rest != "" && m.match(strings.TrimPrefix(rest, `\`)[1:], name, true) {
		return true // no directory at all
	}
	for i := 0; ; i++ {
		if m.match(rest, name[i:], false) {
			return true
		}
		if i == len(name) || name[i] == '/' && !deep {
			return false
		}
	}
}

// one matches the first character of a name with the first of a pattern, and returns the rest of
// the pattern.
func one(pattern, name string) (rest string, ok bool) {
	if name == "" {
		return "", false
	}
	switch pattern[0] {
	case '?':
		return pattern[1:], name[0] != '/'
	case '[':
		return class(pattern, name[0])
	case '\\':
		if len(pattern) == 1 {
			return "", false
		}
		pattern = pattern[1:]
	}
	return pattern[1:], pattern[0] == name[0]
}

// class matches a byte with a class such as [a-z]. A class that does not end matches nothing.
func class(pattern string, c byte) (rest string, ok bool) {
	rest = pattern[1:]
	negated := rest != "" && (rest[0] == '!' || rest[0] == '^')
	if negated {
		rest = rest[1:]
	}
	found := false
	for first := true; ; first = false {
		if rest == "" {
			return "", false
		}
		if rest[0] == ']' && !first {
			return rest[1:], found != negated && c != '/'
		}
		in, after, valid := member(rest, c)
		if !valid {
			return "", false
		}
		found, rest = found || in, after
	}
}

// member matches a byte with the first member of a class: a byte, a range, or a named class.
func member(text string, c byte) (in bool, rest string, valid bool) {
	if named, isNamed := strings.CutPrefix(text, "[:"); isNamed {
		if name, after, ends := strings.Cut(named, ":]"); ends && !strings.Contains(name, "]") {
			holds := classes[name]
			return holds != nil && holds(c), after, holds != nil
		}
	}
	low, rest, valid := literal(text)
	if !valid || len(rest) < 2 || rest[0] != '-' || rest[1] == ']' {
		return c == low, rest, valid
	}
	high, rest, valid := literal(rest[1:])
	return c == low || low <= c && c <= high, rest, valid
}

// literal takes one byte, which a backslash may precede.
func literal(text string) (c byte, rest string, valid bool) {
	if text[0] == '\\' {
		text = text[1:]
	}
	if text == "" {
		return 0, "", false
	}
	return text[0], text[1:], true
}

// classes are the named ones of POSIX.
var classes = map[string]func(byte) bool{
	"alnum":  func(c byte) bool { return isAlpha(c) || isDigit(c) },
	"alpha":  isAlpha,
	"blank":  func(c byte) bool { return c == ' ' || c == '\t' },
	"cntrl":  func(c byte) bool { return c < ' ' || c == 127 },
	"digit":  isDigit,
	"graph":  isGraph,
	"lower":  func(c byte) bool { return 'a' <= c && c <= 'z' },
	"print":  func(c byte) bool { return isGraph(c) || c == ' ' },
	"punct":  func(c byte) bool { return isGraph(c) && !isAlpha(c) && !isDigit(c) },
	"space":  func(c byte) bool { return c == ' ' || '\t' <= c && c <= '\r' },
	"upper":  func(c byte) bool { return 'A' <= c && c <= 'Z' },
	"xdigit": func(c byte) bool { return isDigit(c) || 'a' <= c|32 && c|32 <= 'f' },
}

func isAlpha(c byte) bool { return 'a' <= c|32 && c|32 <= 'z' }
func isDigit(c byte) bool { return '0' <= c && c <= '9' }
func isGraph(c byte) bool { return '!' <= c && c <= '~' }
