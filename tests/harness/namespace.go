package harness

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"testing"
)

// InNamespaces starts a command as the first process of new namespaces, and returns its pid once it
// has printed "ready". It ends with the test. flags are those of unshare for the namespaces; the
// command has a pid namespace in any case.
func InNamespaces(t testing.TB, flags []string, command ...string) (init int) {
	t.Helper()
	arguments := append([]string{"--pid", "--fork", "--kill-child"}, flags...)
	started := exec.Command("unshare", append(arguments, command...)...)
	started.Stderr = os.Stderr
	out, err := started.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := started.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = started.Process.Kill(); _ = started.Wait() })
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "ready\n" {
		Need(t, "container", fmt.Errorf("%v: %q: %w", command, line, err))
	}
	return OnlyChild(t, started.Process.Pid)
}

// OnlyChild returns the pid of the only child of a process.
func OnlyChild(t testing.TB, pid int) (child int) {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))
	if err == nil {
		_, err = fmt.Sscan(string(text), &child)
	}
	if err != nil {
		t.Fatalf("children of pid %d: %q, %v", pid, text, err)
	}
	return child
}
