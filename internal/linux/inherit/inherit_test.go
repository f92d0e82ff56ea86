package inherit

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestMain is also a process that has inherited files and signals. It starts another one, which
// shows what it has got.
func TestMain(m *testing.M) {
	if len(os.Args) < 2 || os.Args[1] != "child" {
		os.Exit(m.Run())
	}
	if err := CloseFiles(5); err != nil {
		os.Exit(3)
	}
	if _, err := os.Stat("/proc/self/fd/5"); err != nil {
		os.Exit(4) // it was to be kept
	}
	ResetSignals()
	show := exec.Command("sh", "-c", "echo /proc/self/fd/*; grep SigIgn /proc/self/status")
	show.Stdout, show.Stderr = os.Stdout, os.Stderr
	if show.Run() != nil {
		os.Exit(5)
	}
	os.Exit(0)
}

func TestInheritance(t *testing.T) {
	if _, err := exec.LookPath("bash"); err != nil {
		t.Skip(err)
	}
	itself, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	const script = `trap '' HUP INT TSTP TTIN USR1 RTMAX; exec "$0" child 5< /dev/null 6< "$1" 30<&6`
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	output, err := exec.Command("bash", "-c", script, itself, path).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, output)
	}
	want := "/proc/self/fd/0 /proc/self/fd/1 /proc/self/fd/2"
	files, signals, _ := strings.Cut(string(output), "\n")
	if files = strings.TrimSuffix(files, " /proc/self/fd/3"); files != want { // the shell reads the directory
		t.Errorf("files %q, want %q", files, want)
	}
	if fields := strings.Fields(signals); len(fields) != 2 || strings.Trim(fields[1], "0") != "" {
		t.Errorf("ignored signals: %q", signals)
	}
}
