package rules

import (
	"go/ast"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"
)

const glossary = "docs/glossary.md"

// glossaryRow is a row of the table of words that are not used: `word` | what to say instead.
var glossaryRow = regexp.MustCompile("^\\| `([a-z]+)` \\| (.+) \\|$")

// unusedTerms are words that no name has, with what to say instead.
type unusedTerms map[string]string

// endings make other forms of a word: wishes, warmer, rejoined.
var endings = []string{"", "s", "es", "er", "ers", "d", "ed", "ing"}

// instead looks a word up in all its forms.
func (u unusedTerms) instead(word string) (say string, bad bool) {
	for _, ending := range endings {
		if stem, ok := strings.CutSuffix(word, ending); ok {
			if say, bad = u[stem]; bad {
				return say, true
			}
		}
	}
	return "", false
}

// unusedWords reads the glossary's last table.
func unusedWords(t *testing.T) unusedTerms {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, glossary))
	if err != nil {
		t.Fatal(err)
	}
	_, table, found := strings.Cut(string(text), "\n## Words that are not used\n")
	if !found {
		t.Fatalf("%s has no section of words that are not used", glossary)
	}
	words := unusedTerms{}
	for line := range strings.Lines(table) {
		if match := glossaryRow.FindStringSubmatch(strings.TrimSpace(line)); match != nil {
			words[match[1]] = match[2]
		}
	}
	if len(words) == 0 {
		t.Fatalf("%s names no word that is not used", glossary)
	}
	return words
}

// TestGlossary: no name in code, and no file, holds a word for which the glossary has another.
func TestGlossary(t *testing.T) {
	unused := unusedWords(t)
	for _, f := range files(t, func(f file) bool { return named(f) && !under(f.path, "tests/workloads") }) {
		for _, word := range wordsOf(strings.TrimSuffix(path.Base(f.path), path.Ext(f.path))) {
			if say, bad := unused.instead(word); bad {
				t.Errorf("%s: the glossary does not use %q; say %s", f.path, word, say)
			}
		}
		if f.has(".go") {
			continue // below, without the names that other modules give
		}
		for i, line := range strings.Split(code(f), "\n") {
			for _, word := range wordsOf(line) {
				if say, bad := unused.instead(word); bad {
					t.Errorf("%s:%d: the glossary does not use %q; say %s", f.path, i+1, word, say)
				}
			}
		}
	}
	for _, s := range sources(t, func(file) bool { return true }) {
		for _, name := range declared(s.syntax) {
			for _, word := range wordsOf(name.Name) {
				if say, bad := unused.instead(word); bad {
					t.Errorf("%s:%d: %s: the glossary does not use %q; say %s",
						s.path, s.set.Position(name.Pos()).Line, name.Name, word, say)
				}
			}
		}
	}
}

// named reports whether a file is of a language whose names are looked at.
func named(f file) bool {
	return slices.ContainsFunc([]string{".go", ".c", ".h", ".py", ".js", ".css"}, f.has)
}

// formerNames has the settings that users may still call by their earlier names.
const formerNames = "daemon/config/renamed.go"

// foreignNames are commands of other projects.
var foreignNames = regexp.MustCompile(`\bgo mod tidy\b`)

// TestGlossaryOfTexts: the same for what people read, and for names that programs exchange.
func TestGlossaryOfTexts(t *testing.T) {
	unused := unusedWords(t)
	for _, text := range texts(t) {
		if text.path == formerNames {
			continue
		}
		for _, word := range wordsOf(foreignNames.ReplaceAllString(text.text, "")) {
			if say, bad := unused.instead(word); bad {
				t.Errorf("%s:%d: the glossary does not use %q; say %s", text.path, text.line, word, say)
			}
		}
	}
}

// declared lists the names that a file gives to something.
func declared(syntax *ast.File) (names []*ast.Ident) {
	names = append(names, syntax.Name)
	ast.Inspect(syntax, func(node ast.Node) bool {
		switch node := node.(type) {
		case *ast.FuncDecl:
			names = append(names, node.Name)
		case *ast.TypeSpec:
			names = append(names, node.Name)
		case *ast.ValueSpec:
			names = append(names, node.Names...)
		case *ast.Field:
			names = append(names, node.Names...)
		case *ast.ImportSpec:
			if node.Name != nil {
				names = append(names, node.Name)
			}
		case *ast.AssignStmt:
			for _, left := range node.Lhs {
				if name, ok := left.(*ast.Ident); ok && node.Tok.String() == ":=" {
					names = append(names, name)
				}
			}
		}
		return true
	})
	return names
}

// wordsOf splits a name at its capitals, digits and underscores: "newGPUList" is new, gpu, list.
func wordsOf(name string) (words []string) {
	runes := []rune(name)
	start := 0
	cut := func(end int) {
		if end > start {
			words = append(words, strings.ToLower(string(runes[start:end])))
		}
		start = end
	}
	for i, r := range runes {
		switch {
		case !unicode.IsLetter(r):
			cut(i)
			start = i + 1
		case unicode.IsUpper(r) && i > 0 && (unicode.IsLower(runes[i-1]) || i+1 < len(runes) && unicode.IsLower(runes[i+1])):
			cut(i)
		}
	}
	cut(len(runes))
	return words
}

func TestUnusedForms(t *testing.T) {
	unused := unusedTerms{"wish": "pending", "warm": "standby", "revive": "restore"}
	for word, want := range map[string]bool{
		"wish": true, "wishes": true, "warmer": true, "warms": true, "revived": true, "warmth": false, "is": false, "": false,
	} {
		if _, bad := unused.instead(word); bad != want {
			t.Errorf("%q: %v, want %v", word, bad, want)
		}
	}
}

func TestWordsOf(t *testing.T) {
	for name, want := range map[string]string{
		"newGPUList": "new gpu list", "session_keeper": "session keeper", "A": "a", "": "", "x2y": "x y", "ErrNoGPU": "err no gpu", "warm": "warm",
	} {
		if got := strings.Join(wordsOf(name), " "); got != want {
			t.Errorf("%q: %q, want %q", name, got, want)
		}
	}
}
