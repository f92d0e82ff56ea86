package ignore

import (
	"bytes"
	"math/rand/v2"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// judge is git, which says what its rules leave out.
func judge(t *testing.T, dir string, names []string) map[string]bool {
	t.Helper()
	check := exec.Command("git", "-c", "core.excludesFile=", "check-ignore", "--no-index", "-z", "--stdin")
	check.Dir, check.Stdin = dir, strings.NewReader(strings.Join(names, "\x00"))
	output, err := check.Output()
	if err != nil && check.ProcessState.ExitCode() != 1 { // 1: none
		t.Fatalf("git check-ignore: %v", err)
	}
	left := map[string]bool{}
	for name := range strings.SplitSeq(string(output), "\x00") {
		left[name] = true
	}
	return left
}

// tree makes a repository with files and rules.
func tree(t *testing.T, names []string, rules map[string]string) string {
	t.Helper()
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("git, which is the truth for this test, is not installed")
	}
	dir := t.TempDir()
	if output, err := exec.Command("git", "init", "-q", dir).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, output)
	}
	for _, name := range names {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for in, text := range rules {
		if err := os.WriteFile(filepath.Join(dir, in, ".gitignore"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// left says what the package leaves out, as a walk asks it.
func left(names []string, rules map[string]string) map[string]bool {
	result := map[string]bool{}
	for _, name := range names {
		var r *Rules
		dir := "."
		parts := strings.Split(name, "/")
		for i, part := range parts {
			if text, ok := rules[dir]; ok {
				r = r.Below(dir, []byte(text))
			}
			dir = path.Join(dir, part)
			if r.Leaves(dir, i < len(parts)-1) {
				result[name] = true
				break
			}
		}
	}
	return result
}

func compare(t *testing.T, names []string, rules map[string]string) {
	t.Helper()
	want, got := judge(t, tree(t, names, rules), names), left(names, rules)
	for _, name := range names {
		if want[name] != got[name] {
			t.Errorf("%q with %q: left out: %v, git: %v", name, rules, got[name], want[name])
		}
	}
}

func TestRules(t *testing.T) {
	names := []string{
		"a", "b.o", "x/a", "x/y/a", "x/y/b.o", "x/keep.o", "logs/1", "x/logs/1", "doc/a.txt", "doc/x/a.txt",
		"spaces  ", "sp ace", "#hash", "!bang", "back\\slash", "[a]", "new\nline", "é", "UPPER", "x-1", "x]",
		"a/b/c/d", "foo/bar/baz", "foobar", "foo/x/y/bar",
	}
	names = slices.DeleteFunc(names, func(name string) bool { return strings.HasPrefix(name, "a/") }) // "a" is a file
	for _, text := range []string{
		"*.o", "/a", "a", "x/a", "*.o\n!keep.o", "logs/", "/logs/", "doc/*.txt", "doc/**/*.txt", "**/a", "x/**", "**",
		"foo/**/bar", "**/bar", "foo/**/", "spaces\\ \\ ", "spaces  ", `\#hash`, `\!bang`, "#hash", "!a\na",
		`back\\slash`, `\[a\]`, "[a]", "[!a]", "[^a-w]*", "x-[0-9]", "x-[[:digit:]]", "[[:upper:]]*", "x[]]", "[x-]*", "x[",
		"new?line", "*\n!*/", "*\n!x/\n!x/**", "x/*\n!x/keep.o", "\xef\xbb\xbfa", "a\r\nb.o\r", "/", "//", "é", "?", "*a*",
		"foo*", "foo/*", "*/a", "foo**bar", "**foo", "x/y", `x\/y`, "\\", "!", "a/", "[[:nothing:]]", "[a", "[a-", `[\a]`,
		"***", "***/a", "x/***/a", "[]a]", "[!]a]", "[]-a]", "x/", "!x/\nx/", "**/", "*/", "[/]a", "x[/]a", "x?a",
	} {
		compare(t, names, map[string]string{".": text})
	}
	compare(t, names, map[string]string{".": "*.o\nlogs", "x": "!*.o\n/a\n!logs", "x/y": "a"})
}

// TestRandomRules draws patterns from the characters that mean something.
func TestRandomRules(t *testing.T) {
	names := []string{"a", "b", "ab", "a.b", "d/a", "d/ab", "d/d/a", "d/d/d/b", "e/a", "e/d/ab", "]", "-", "!", "*", "d/*"}
	random := rand.New(rand.NewPCG(1, 2))
	draw := func() string {
		var text strings.Builder
		for range 1 + random.IntN(3) {
			for range 1 + random.IntN(6) {
				text.WriteByte(`ab*?/d.[]!-\^`[random.IntN(13)])
			}
			text.WriteByte('\n')
		}
		return text.String()
	}
	for range 15 {
		compare(t, names, map[string]string{".": draw(), "d": draw(), "e": draw()})
	}
}

// TestBounded: a pattern that would take an exponential time ends.
func TestBounded(t *testing.T) {
	done := make(chan bool)
	go func() { done <- match(strings.Repeat("*a", 64)+"b", strings.Repeat("a", 4096)) }()
	select {
	case matched := <-done:
		if matched {
			t.Error("it matches")
		}
	case <-time.After(time.Minute):
		t.Error("it does not end")
	}
}

func FuzzRules(f *testing.F) {
	f.Add([]byte("a\n!b/\n**/c[a-z]\\ "), "x/y", true)
	f.Fuzz(func(_ *testing.T, text []byte, name string, isDir bool) {
		var top *Rules
		r := top.Below(".", text).Below("x", bytes.ToUpper(text))
		_ = r.Leaves(name, isDir)
	})
}
