package rules

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestCommitHook: the hook takes what CONTRIBUTING.md asks of a commit message, and nothing else.
func TestCommitHook(t *testing.T) {
	hook := filepath.Join(root, "scripts", "hooks", "commit-msg")
	long := "ckpt/store: " + strings.Repeat("x", 53)
	for _, test := range []struct {
		name, message string
		ok            bool
	}{
		{"subject and body", "ckpt/store: say why\n\nBecause it is asked for.\n", true},
		{"65 characters", long + "\n\nBody.\n", true},
		{"66 characters", long + "x\n\nBody.\n", false},
		{"no body", "ckpt/store: say why\n", false},
		{"only comments below", "ckpt/store: say why\n\n# a comment of git\n", false},
		{"no package", "say why\n\nBody.\n", false},
		{"merge", "Merge branch 'x'\n", true},
		{"empty", "\n", false},
	} {
		path := filepath.Join(t.TempDir(), "message")
		if err := os.WriteFile(path, []byte(test.message), 0o600); err != nil {
			t.Fatal(err)
		}
		out, err := exec.Command(hook, path).CombinedOutput()
		if (err == nil) != test.ok {
			t.Errorf("%s: %v, want ok %v\n%s", test.name, err, test.ok, out)
		}
	}
}
