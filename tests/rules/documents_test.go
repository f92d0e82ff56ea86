package rules

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	namedFile  = regexp.MustCompile(`(?:^|[\s(` + "`" + `"])((?:[a-zA-Z0-9_.-]+/)*[a-zA-Z0-9_-]+\.(?:go|proto|md|sh))\b`)
	quotedPath = regexp.MustCompile("`([a-z0-9_.]+(?:/[a-zA-Z0-9_.-]+)*)`")
	section    = regexp.MustCompile(`(?m)^## (.+)$`)
	indexLine  = regexp.MustCompile(`(?m)^- \[(.+)\]\((docs/rationale/\w+\.md)#.+\)$`)
)

// TestNamedFilesExist: a comment must not outlive the file that it names. A name is one of the same
// folder, a path from there, or a path from the root.
func TestNamedFilesExist(t *testing.T) {
	for _, c := range comments(t) {
		for _, match := range namedFile.FindAllStringSubmatch(c.text, -1) {
			_, here := os.Stat(filepath.Join(root, filepath.Dir(c.path), match[1]))
			_, top := os.Stat(filepath.Join(root, match[1]))
			if here != nil && top != nil {
				t.Errorf("%s:%d speaks of %s, which is not there", c.path, c.line, match[1])
			}
		}
	}
}

// madeFiles are made by phos, or by readers of a document; documents may name them.
var madeFiles = []string{"phos-gpu-bundle.sh", "train.sh", "pipeline.sh"}

// TestNamedFilesOfDocuments: the same for documents, where a name may also be the end of a path.
func TestNamedFilesOfDocuments(t *testing.T) {
	all := files(t, func(file) bool { return true })
	for _, f := range files(t, func(f file) bool { return f.has(".md") && !under(f.path, "bench/results") }) {
		for _, match := range namedFile.FindAllStringSubmatch(string(f.text), -1) {
			_, here := os.Stat(filepath.Join(root, f.dir(), match[1]))
			_, top := os.Stat(filepath.Join(root, match[1]))
			ends := func(f file) bool { return strings.HasSuffix("/"+f.path, "/"+match[1]) }
			if here != nil && top != nil && !slices.ContainsFunc(all, ends) && !slices.Contains(madeFiles, match[1]) {
				t.Errorf("%s speaks of %s, which is not there", f.path, match[1])
			}
		}
	}
}

// elsewhere are words for documents that are not in this repository.
var elsewhere = regexp.MustCompile(`(?i)\b(decision [0-9]+|the design (says|asks|document))\b`)

func TestNothingElsewhereIsNamed(t *testing.T) {
	for _, c := range comments(t) {
		if name := elsewhere.FindString(c.text); name != "" {
			t.Errorf("%s:%d speaks of %q, which is not in this repository", c.path, c.line, name)
		}
	}
}

// TestRationaleIndex: RATIONALE.md lists the sections of each page below docs/rationale, in their
// order, and no others.
func TestRationaleIndex(t *testing.T) {
	listed := map[string][]string{}
	index, err := os.ReadFile(filepath.Join(root, "RATIONALE.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, match := range indexLine.FindAllStringSubmatch(string(index), -1) {
		listed[match[2]] = append(listed[match[2]], match[1])
	}
	for _, f := range files(t, func(f file) bool { return f.has(".md") && under(f.path, "docs/rationale") }) {
		var sections []string
		for _, match := range section.FindAllStringSubmatch(string(f.text), -1) {
			sections = append(sections, match[1])
		}
		if !slices.Equal(listed[f.path], sections) {
			t.Errorf("RATIONALE.md lists of %s\n%s\nbut its sections are\n%s",
				f.path, strings.Join(listed[f.path], "\n"), strings.Join(sections, "\n"))
		}
		delete(listed, f.path)
	}
	for path := range listed {
		t.Errorf("RATIONALE.md lists sections of %s, which is not there", path)
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
