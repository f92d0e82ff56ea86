package rules

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/phos-gpu/phos/tests/golden"
)

// TestDependencyLists keeps the list of everything linked into each program in the repository, so
// that an addition is seen in review.
func TestDependencyLists(t *testing.T) {
	for _, main := range []string{"pos_cli", "phosd"} {
		if _, err := os.Stat(filepath.Join(root, "cli", main, "main.go")); err != nil {
			t.Errorf("no program %s", main)
			continue
		}
		var names []string
		for _, p := range goList(t, "-deps", "./cli/"+main) {
			if !p.Standard {
				names = append(names, p.ImportPath)
			}
			if strings.HasPrefix(p.ImportPath, "go.etcd.io/") {
				t.Errorf("%s links %s, which only the controller needs", main, p.ImportPath)
			}
		}
		slices.Sort(names)
		got := strings.Join(names, "\n") + "\n"
		golden.Check(t, filepath.Join("testdata", main+".deps"), []byte(got))
	}
}
