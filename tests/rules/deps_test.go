package rules

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestDependencyLists keeps the list of everything linked into each program in the repository, so that an addition is seen in review.
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
		}
		slices.Sort(names)
		got := strings.Join(names, "\n") + "\n"
		golden := filepath.Join("testdata", main+".deps")
		if *update {
			if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(golden)
		if err != nil {
			t.Fatal(err)
		}
		if got != string(want) {
			t.Errorf("%s links other packages than %s lists; look at them, then run this test with -update", main, golden)
		}
	}
}
