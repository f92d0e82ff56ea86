package proc

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// A confined process stays confined; a process started beside it is not.
func TestStartConfined(t *testing.T) {
	for confined, want := range map[bool]string{true: "NoNewPrivs:\t1", false: own(t)} {
		command := exec.Command("grep", "NoNewPrivs", "/proc/self/status")
		var said strings.Builder
		command.Stdout = &said
		start := command.Start
		if confined {
			start = func() error { return StartConfined(command) }
		}
		if err := start(); err != nil {
			t.Fatal(err)
		}
		if err := command.Wait(); err != nil {
			t.Fatal(err)
		}
		if got := strings.TrimSpace(said.String()); got != want {
			t.Errorf("confined %v: %q, want %q", confined, got, want)
		}
	}
	if err := StartConfined(exec.Command("/nowhere")); !os.IsNotExist(err) {
		t.Errorf("missing program: %v", err)
	}
}

// own returns the test process's own line.
func own(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("/proc/thread-self/status")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "NoNewPrivs") {
			return strings.TrimSpace(line)
		}
	}
	t.Skip("not reported by this kernel")
	return ""
}
