package harness

import (
	"bytes"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// Promtool runs Prometheus's own checker, which must find nothing. PROMTOOL is its path.
func Promtool(t *testing.T, stdin string, arguments ...string) {
	t.Helper()
	path := os.Getenv("PROMTOOL")
	if path == "" {
		found, err := exec.LookPath("promtool")
		Need(t, "promtool", err)
		path = found
	}
	command := exec.Command(path, arguments...)
	command.Stdin = strings.NewReader(stdin)
	if text, err := command.CombinedOutput(); err != nil || bytes.Contains(text, []byte("lint error")) {
		t.Errorf("promtool %v: %v: %s", arguments, err, text)
	}
}
