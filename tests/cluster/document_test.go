package cluster

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/phos-gpu/phos/tests/harness"
)

// pythonBlock is a block of a document with a Python script, behind the line before it.
var pythonBlock = regexp.MustCompile("(?m)^(.*)\n```python\n((?:.*\n)*?)```$")

// TestPythonDocument runs the scripts of docs/python.md in their order, as they stand there.
func TestPythonDocument(t *testing.T) {
	python, err := exec.LookPath("python3")
	harness.Need(t, "python", err)
	text, err := os.ReadFile(harness.Path("docs/python.md"))
	if err != nil {
		t.Fatal(err)
	}
	s := newSite(t, 1, 2)
	dir, count := s.project(), 0
	for _, match := range pythonBlock.FindAllStringSubmatch(string(text), -1) {
		if strings.HasPrefix(match[1], "<!-- not run:") {
			continue
		}
		count++
		script := filepath.Join(s.hosts[0].Shared(), filepath.Base(dir), "document.py")
		if err := os.WriteFile(script, []byte(match[2]), 0o644); err != nil {
			t.Fatal(err)
		}
		command := s.hosts[0].Command(t.Context(), python, filepath.Join(dir, "document.py"))
		command.Dir = dir
		command.Env = append(command.Env, "PYTHONPATH="+harness.Path("python"), "PYTHONDONTWRITEBYTECODE=1")
		said, err := command.CombinedOutput()
		t.Logf("%s", said)
		if err != nil {
			t.Fatalf("%v:\n%s", err, match[2])
		}
	}
	if count != 3 {
		t.Errorf("%d scripts were run", count)
	}
}
