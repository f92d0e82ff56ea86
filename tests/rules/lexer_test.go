package rules

import (
	"bytes"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
)

// language says how to find comments and texts in files of some endings.
type language struct {
	endings []string
	tokens  *regexp.Regexp // group 1: a comment; group 2: a text
}

const (
	doubleQuoted = `"(?:[^"\\\n]|\\.)*"`
	singleQuoted = `'(?:[^'\\\n]|\\.)*'`
)

// languages of the hand-written files. Documents are all text; tests of documents read them as they
// are.
var languages = []language{
	// Python's triple quotes come first: a docstring is a text too.
	{
		[]string{".py"},
		regexp.MustCompile(`(?s)(#[^\n]*)|("""(?:[^\\]|\\.)*?"""|` + doubleQuoted + `|` + singleQuoted + `)`),
	},
	{
		[]string{".go", ".c", ".h", ".cu", ".proto", ".js", ".css", ".json"},
		regexp.MustCompile(`(?s)(//[^\n]*|/\*.*?\*/)|(` + doubleQuoted + `|` + singleQuoted + "|`[^`]*`)"),
	},
	{
		[]string{".html"},
		regexp.MustCompile(`(?s)<!--(.*?)-->|([^<]+)`),
	},
	// Shell and settings: a line is a comment, or holds what the script prints.
	{
		[]string{
			".sh", "Makefile", ".yaml", ".yml", ".toml", ".service",
			"scripts/pycuda.txt", "scripts/hooks/commit-msg", "deploy/debian/control",
		},
		regexp.MustCompile(`(?m)^[ \t]*(#.*)$|^(.+)$`),
	},
}

// fragment is a comment or a text of a file, in whole.
type fragment struct {
	file
	line       int // the first
	text       string
	start, end int // in bytes of the file
	comment    bool
}

// fragments finds the comments and texts of a file. It finds none in a language that it does not
// know.
func fragments(f file) (found []fragment) {
	at := slices.IndexFunc(languages, func(l language) bool { return slices.ContainsFunc(l.endings, f.has) })
	if at < 0 {
		return nil
	}
	text, line, counted := string(f.text), 1, 0
	for _, match := range languages[at].tokens.FindAllStringSubmatchIndex(text, -1) {
		group := 1
		if match[2] < 0 {
			group = 2
		}
		start, end := match[2*group], match[2*group+1]
		line += strings.Count(text[counted:start], "\n")
		counted = start
		found = append(found, fragment{f, line, text[start:end], start, end, group == 1})
	}
	return found
}

// allFragments has the comments and texts of all hand-written files.
var allFragments = sync.OnceValues(func() (found []fragment, err error) {
	all, err := tree()
	for _, f := range all {
		if !f.generated() && !strings.Contains(f.path, "/_") && !under(f.path, "bench/results") {
			found = append(found, fragments(f)...)
		}
	}
	return found, err
})

// handWritten returns the comments and texts of which keep says yes.
func handWritten(t *testing.T, keep func(fragment) bool) (kept []fragment) {
	t.Helper()
	all, err := allFragments()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range all {
		if keep(f) {
			kept = append(kept, f)
		}
	}
	if len(kept) == 0 {
		t.Fatal("the rule looks at no text at all")
	}
	return kept
}

// wholeLine returns the line of the file that has the byte at an offset.
func (f file) wholeLine(at int) string {
	start := bytes.LastIndexByte(f.text[:at], '\n') + 1
	line, _, _ := bytes.Cut(f.text[start:], []byte("\n"))
	return string(line)
}

// code is a file without its comments and texts, with the same lines.
func code(f file) string {
	text := slices.Clone(f.text)
	for _, found := range fragments(f) {
		for i := found.start; i < found.end; i++ {
			if text[i] != '\n' {
				text[i] = ' '
			}
		}
	}
	return string(text)
}

// comment is one line of a comment.
type comment struct {
	path      string
	line      int
	text      string
	wholeLine string
	alone     bool // there is no code before it
}

// comments finds all lines of comments in the hand-written files.
func comments(t *testing.T) (found []comment) {
	t.Helper()
	for _, c := range handWritten(t, func(f fragment) bool { return f.comment }) {
		at := c.start
		for i, text := range strings.Split(c.text, "\n") {
			whole := c.wholeLine(at)
			alone := strings.HasPrefix(strings.TrimSpace(whole), strings.TrimSpace(text))
			found = append(found, comment{c.path, c.line + i, text, whole, alone})
			at += len(text) + 1
		}
	}
	return found
}

// escapes of a string literal, which would join two words.
var escapes = strings.NewReplacer(`\n`, " ", `\t`, " ")

// texts finds what people read of the product without its sources: help, errors, logs, states,
// Python's docstrings, the words of pages, what scripts print. Any literal may become one of them.
func texts(t *testing.T) (found []fragment) {
	t.Helper()
	for _, text := range handWritten(t, func(f fragment) bool { return !f.comment && product(f.file) && !ofTests(f.path) }) {
		text.text = escapes.Replace(text.text)
		found = append(found, text)
	}
	return found
}

// ofTests reports whether a file is part of a test only.
func ofTests(path string) bool {
	return slices.ContainsFunc([]string{"/tests/", "/test/", "/testdata/"}, func(folder string) bool {
		return strings.Contains("/"+path, folder)
	})
}

func TestFragments(t *testing.T) {
	for _, example := range []struct{ path, text, comments, texts string }{
		{"a.go", "x := \"a // b\" // c\n'\"' /* d\ne */ `f \"g`", "// c|/* d\ne */", "\"a // b\"|'\"'|`f \"g`"},
		{"a.c", "#error don't\nchar c = '\\''; // \"x\"\nputs(\"a\\\"b\");", "// \"x\"", "'\\''|\"a\\\"b\""},
		{"a.py", "\"\"\"Says \"it\".\"\"\"\nx = 'a # b' # it's c\n", "# it's c", "\"\"\"Says \"it\".\"\"\"|'a # b'"},
		{"a.js", "text(who, `a ${b} 'c'`); // d", "// d", "`a ${b} 'c'`"},
		{"a.html", "<!-- a --><p title=\"b\">c</p>", " a ", "p title=\"b\">c|/p>"},
		{"a.sh", "  # a\necho b # c", "# a", "echo b # c"},
		{"a.bin", "// a \"b\"", "", ""},
	} {
		var comments, texts []string
		for _, found := range fragments(file{example.path, []byte(example.text)}) {
			if found.comment {
				comments = append(comments, found.text)
			} else {
				texts = append(texts, found.text)
			}
		}
		if got := strings.Join(comments, "|"); got != example.comments {
			t.Errorf("%s: comments %q, want %q", example.path, got, example.comments)
		}
		if got := strings.Join(texts, "|"); got != example.texts {
			t.Errorf("%s: texts %q, want %q", example.path, got, example.texts)
		}
	}
}
