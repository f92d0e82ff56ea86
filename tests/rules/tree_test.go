package rules

import (
	"bytes"
	"encoding/json"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

const (
	root   = "../.."
	module = "github.com/phos-gpu/phos"
)

// file is one text file of the repository.
type file struct {
	path string // from the root, with slashes
	text []byte
}

func (f file) lines() int          { return bytes.Count(f.text, []byte("\n")) }
func (f file) isTest() bool        { return strings.HasSuffix(f.path, "_test.go") }
func (f file) generated() bool     { return strings.HasPrefix(filepath.Base(f.path), "zz_") }
func (f file) dir() string         { return filepath.ToSlash(filepath.Dir(f.path)) }
func (f file) has(ext string) bool { return strings.HasSuffix(f.path, ext) }

// tree reads every file that belongs to the repository: what git would not ignore is near enough to
// what is in its folders.
var tree = sync.OnceValues(func() ([]file, error) {
	var files []file
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(root, path)
		if d.IsDir() {
			if slices.Contains([]string{".git", ".cache", "bin", "dist"}, rel) {
				return fs.SkipDir
			}
			return nil
		}
		if !d.Type().IsRegular() || rel == ".git" { // a worktree's .git is a file
			return nil
		}
		text, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		files = append(files, file{filepath.ToSlash(rel), text})
		return err
	})
	return files, err
})

// files returns the files of which keep says yes.
func files(t *testing.T, keep func(file) bool) []file {
	t.Helper()
	all, err := tree()
	if err != nil {
		t.Fatal(err)
	}
	var kept []file
	for _, f := range all {
		if keep(f) {
			kept = append(kept, f)
		}
	}
	if len(kept) == 0 {
		t.Fatal("the rule looks at no file at all")
	}
	return kept
}

// source is a hand-written Go file, parsed.
type source struct {
	file
	set    *token.FileSet
	syntax *ast.File
}

// parsed has all hand-written Go files. Programs under a folder that the go command passes over are
// workloads, not part of phos.
var parsed = sync.OnceValues(func() ([]source, error) {
	all, err := tree()
	if err != nil {
		return nil, err
	}
	var parsed []source
	set := token.NewFileSet()
	for _, f := range all {
		if !f.has(".go") || f.generated() || strings.Contains(f.path, "/_") {
			continue
		}
		syntax, err := parser.ParseFile(set, f.path, f.text, parser.ParseComments)
		if err != nil {
			return nil, err
		}
		parsed = append(parsed, source{f, set, syntax})
	}
	return parsed, nil
})

// sources returns the hand-written Go files of which keep says yes.
func sources(t *testing.T, keep func(file) bool) []source {
	t.Helper()
	all, err := parsed()
	if err != nil {
		t.Fatal(err)
	}
	var kept []source
	for _, s := range all {
		if keep(s.file) {
			kept = append(kept, s)
		}
	}
	if len(kept) == 0 {
		t.Fatal("the rule looks at no file at all")
	}
	return kept
}

func product(f file) bool { return !f.isTest() }

// span is the number of lines a node covers.
func (s source) span(node ast.Node) int {
	return s.set.Position(node.End()).Line - s.set.Position(node.Pos()).Line + 1
}

// pkg is what the go command says of a package.
type pkg struct {
	ImportPath string
	Name       string
	Imports    []string
	Deps       []string
	GoFiles    []string
	Standard   bool
}

// goList runs go list and decodes its answer.
func goList(t *testing.T, args ...string) []pkg {
	t.Helper()
	command := exec.Command(
		"go",
		append([]string{"list", "-json=ImportPath,Name,Imports,Deps,GoFiles,Standard"}, args...)...)
	command.Dir = root
	command.Env = append(os.Environ(), "CGO_ENABLED=0")
	command.Stderr = os.Stderr
	out, err := command.Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	var packages []pkg
	for decoder := json.NewDecoder(bytes.NewReader(out)); ; {
		var p pkg
		if err := decoder.Decode(&p); err == io.EOF {
			return packages
		} else if err != nil {
			t.Fatal(err)
		}
		packages = append(packages, p)
	}
}

// exceptions are the named things that may break a rule, each with its reason.
type exceptions map[string]string

// check reports breaches that are no exception, and exceptions that are no breach.
func (e exceptions) check(t *testing.T, breaches map[string]string) {
	t.Helper()
	for name, what := range breaches {
		if _, known := e[name]; !known {
			t.Errorf("%s: %s", name, what)
		}
	}
	for name := range e {
		if _, broken := breaches[name]; !broken {
			t.Errorf("%s is an exception that is no longer needed", name)
		}
	}
}
