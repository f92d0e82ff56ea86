package rules

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	namedFile  = regexp.MustCompile(`(^|[\s(])([a-z0-9_]+\.(?:go|proto))\b`)
	quotedPath = regexp.MustCompile("`([a-z0-9_.]+(?:/[a-zA-Z0-9_.]+)*)`")
)

// TestNamedFilesExist: a package comment that says "read x.go first" must not outlive x.go.
func TestNamedFilesExist(t *testing.T) {
	for _, s := range sources(t, product) {
		if s.syntax.Doc == nil {
			continue
		}
		for _, match := range namedFile.FindAllStringSubmatch(s.syntax.Doc.Text(), -1) {
			if _, err := os.Stat(filepath.Join(root, s.dir(), match[2])); err != nil {
				t.Errorf("%s speaks of %s, which is not there", s.path, match[2])
			}
		}
	}
}

// TestArchitecture wants every package in the table of ARCHITECTURE.md, with a file to read first
// that exists.
func TestArchitecture(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "ARCHITECTURE.md"))
	if err != nil {
		t.Fatal(err)
	}
	listed := map[string]bool{}
	for line := range strings.SplitSeq(string(text), "\n") {
		cells := strings.Split(line, "|")
		if len(cells) != 5 {
			continue
		}
		where, first := quotedPath.FindStringSubmatch(cells[1]), quotedPath.FindStringSubmatch(cells[3])
		if where == nil || first == nil {
			continue
		}
		listed[where[1]] = true
		if _, err := os.Stat(filepath.Join(root, where[1], first[1])); err != nil {
			t.Errorf("ARCHITECTURE.md: %s has no %s to read first", where[1], first[1])
		}
	}
	for _, p := range goList(t, "./...") {
		if path := strings.TrimPrefix(p.ImportPath, module+"/"); !listed[path] {
			t.Errorf("ARCHITECTURE.md does not list %s", path)
		}
	}
}
