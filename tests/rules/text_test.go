package rules

import (
	"bytes"
	"go/ast"
	"go/format"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

func TestFormat(t *testing.T) {
	for _, f := range files(t, func(f file) bool { return f.has(".go") }) {
		if formatted, err := format.Source(f.text); err != nil || !bytes.Equal(formatted, f.text) {
			t.Errorf("%s is not as gofmt writes it", f.path)
		}
	}
}

// maxBinaryBytes bounds pictures and profiles, which stay in the history for good.
const maxBinaryBytes = 150 << 10

// TestBinaries: only golden files, small pictures of documents and profiles for the compiler hold
// what is not text. A test binary is committed easily.
func TestBinaries(t *testing.T) {
	for _, f := range files(t, func(file) bool { return true }) {
		known := f.dir() == "docs" && f.has(".png") || path.Base(f.path) == "default.pgo"
		if bytes.IndexByte(f.text, 0) >= 0 && !strings.Contains(f.path, "/testdata/") &&
			(!known || len(f.text) > maxBinaryBytes) {
			t.Errorf("%s is not text", f.path)
		}
	}
}

func TestPackageComments(t *testing.T) {
	comments := map[string][]string{}
	for _, s := range sources(t, product) {
		comments[s.dir()] = append(comments[s.dir()], []string{}...)
		if s.syntax.Doc == nil {
			continue
		}
		comments[s.dir()] = append(comments[s.dir()], s.path)
		want := "Package " + s.syntax.Name.Name + " "
		if s.syntax.Name.Name == "main" {
			want = "Command " + path.Base(s.dir()) + " "
		}
		if !strings.HasPrefix(s.syntax.Doc.Text(), want) {
			t.Errorf("%s: the package comment begins with %q", s.path, want)
		}
	}
	for dir, in := range comments {
		if len(in) != 1 {
			t.Errorf("%s has %d package comments: %v", dir, len(in), in)
		}
	}
}

// TestExportedComments wants a comment beginning with the name on every exported function, method
// and type.
func TestExportedComments(t *testing.T) {
	for _, s := range sources(t, product) {
		for _, d := range s.syntax.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				if d.Name.IsExported() && exportedReceiver(d) && !begins(d.Doc, d.Name.Name) {
					t.Errorf("%s: %s has no comment that begins with its name", s.path, d.Name.Name)
				}
			case *ast.GenDecl:
				for _, spec := range d.Specs {
					if spec, ok := spec.(*ast.TypeSpec); ok && spec.Name.IsExported() && !begins(spec.Doc, spec.Name.Name) &&
						!begins(d.Doc, spec.Name.Name) {
						t.Errorf("%s: %s has no comment that begins with its name", s.path, spec.Name.Name)
					}
				}
			}
		}
	}
}

// conventional methods are explained by the interface of the standard library that they satisfy.
var conventional = []string{
	"Error",
	"Unwrap",
	"Is",
	"String",
	"Close",
	"Read",
	"Write",
	"ReadAt",
	"WriteAt",
	"Len",
	"Less",
	"Swap",
	"MarshalJSON",
	"UnmarshalJSON",
	"UnmarshalText",
	"MarshalText",
	"UnmarshalYAML",
}

func exportedReceiver(d *ast.FuncDecl) bool {
	if d.Recv == nil {
		return true
	}
	if slices.Contains(conventional, d.Name.Name) {
		return false
	}
	for expr := d.Recv.List[0].Type; ; {
		switch e := expr.(type) {
		case *ast.StarExpr:
			expr = e.X
		case *ast.IndexExpr:
			expr = e.X
		case *ast.Ident:
			return e.IsExported()
		default:
			return false
		}
	}
}

func begins(doc *ast.CommentGroup, name string) bool {
	if doc == nil {
		return false
	}
	words := strings.Fields(doc.Text())
	return len(words) > 0 && (strings.TrimRight(words[0], ",.:;") == name || len(words) > 1 && words[1] == name)
}

// badNames say nothing about what is inside.
var badNames = []string{"util", "utils", "common", "helper", "helpers", "misc", "types", "manager", "base"}

func TestNames(t *testing.T) {
	for _, f := range files(t, func(f file) bool { return f.has(".go") || f.has(".c") || f.has(".h") || f.has(".sh") }) {
		stem := strings.TrimSuffix(strings.TrimSuffix(path.Base(f.path), path.Ext(f.path)), "_test")
		for _, name := range []string{stem, path.Base(f.dir())} {
			if slices.Contains(badNames, name) {
				t.Errorf("%s: %q names no thing", f.path, name)
			}
		}
	}
}

var generatedHeader = regexp.MustCompile(`(?m)^(//|/\*|#|<!--) Code generated .* DO NOT EDIT\.`)

func TestGeneratedFiles(t *testing.T) {
	for _, f := range files(t, func(f file) bool { return f.has(".go") || f.has(".c") || f.has(".h") || f.has(".md") }) {
		marked := generatedHeader.Match(firstLines(f.text, 5))
		switch {
		case f.generated() && !marked:
			t.Errorf("%s has no generated-code header", f.path)
		case !f.generated() && marked && f.path != "hijack/spec/COVERAGE.md":
			t.Errorf("%s is generated and not named zz_*", f.path)
		}
	}
}

func firstLines(text []byte, n int) []byte {
	return bytes.Join(bytes.SplitN(text, []byte("\n"), n+1)[:min(n, bytes.Count(text, []byte("\n")))], []byte("\n"))
}

// machinePaths are paths of one developer's machine; %s keeps this file from being found by
// itself.
var machinePaths = regexp.MustCompile(`(^|[^a-zA-Z0-9_$.}])/(work|root|home/[a-z]+)/[a-zA-Z0-9_.]`)

func TestNoMachinePaths(t *testing.T) {
	for _, f := range files(t, func(f file) bool { return !f.has("_test.go") && !bytes.ContainsRune(f.text, 0) }) {
		for i, line := range bytes.Split(f.text, []byte("\n")) {
			if machinePaths.Match(line) {
				t.Errorf("%s:%d holds a path of one machine: %s", f.path, i+1, line)
			}
		}
	}
}

func TestModuleFile(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	if regexp.MustCompile(`(?m)^\s*replace\b`).Match(text) {
		t.Error("go.mod replaces a module: others could not build it")
	}
}

// TestDependenciesExplained requires a reason in docs/rationale for every direct dependency.
func TestDependenciesExplained(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	var why []byte
	for _, f := range files(t, func(f file) bool { return f.dir() == "docs/rationale" && f.has(".md") }) {
		why = append(why, f.text...)
	}
	for _, line := range strings.Split(string(text), "\n") {
		fields := strings.Fields(strings.TrimPrefix(strings.TrimSpace(line), "require "))
		if len(fields) != 2 || !strings.HasPrefix(fields[1], "v") || !strings.Contains(fields[0], ".") {
			continue
		}
		if !bytes.Contains(why, []byte(fields[0])) {
			t.Errorf("docs/rationale does not say why phos depends on %s", fields[0])
		}
	}
}
