// Package golden compares a test's result with a committed file. With -update it rewrites the file;
// check the diff before you commit it. Tested by the packages that use it.
package golden

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the golden files again")

// Check fails a test if got differs from the file, and names the first line that differs.
func Check(t *testing.T, path string, got []byte) {
	t.Helper()
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != string(want) {
		t.Errorf(
			"%s differs: %s; -update writes it again: read the difference then",
			path,
			Difference(string(got), string(want)),
		)
	}
}

// Difference describes the first line that differs between two texts.
func Difference(got, want string) string {
	g, w := strings.Split(got, "\n"), strings.Split(want, "\n")
	for i := range min(len(g), len(w)) {
		if g[i] != w[i] {
			return fmt.Sprintf("line %d is %q and was %q", i+1, g[i], w[i])
		}
	}
	return fmt.Sprintf("%d lines, and there were %d", len(g), len(w))
}
