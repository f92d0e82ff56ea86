package pipeline

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/phos-gpu/phos/tests/harness"
)

// documented returns the program of docs/training.md, with more steps, and the commands of the
// block that names a test.
func documented(t *testing.T, test string, epochs int) (program, commands string) {
	t.Helper()
	document := read(t, harness.Path("docs/training.md"))
	_, program, _ = strings.Cut(document, "```python\n")
	program, _, _ = strings.Cut(program, "```\n")
	_, commands, found := strings.Cut(document, "tested by: tests/pipeline "+test+" -->\n")
	if !found {
		t.Fatalf("docs/training.md has nothing that %s tests", test)
	}
	block := regexp.MustCompile(`^(\n|    .*\n)*`).FindString(commands)
	return strings.Replace(program, "faults=1,", fmt.Sprintf("faults=1, epochs=%d,", epochs), 1), block
}

// launcher is a torchrun with its rank. What it prints goes to a file.
type launcher struct {
	*exec.Cmd
	output string
}

// said returns what a launcher and its rank have printed.
func (l *launcher) said() []byte {
	text, _ := os.ReadFile(l.output)
	return text
}

// ranks returns the processes that a launcher has started.
func (l *launcher) ranks() (pids []int) {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%[1]d/task/%[1]d/children", l.Process.Pid))
	for _, field := range strings.Fields(string(text)) {
		pid, _ := strconv.Atoi(field)
		pids = append(pids, pid)
	}
	return pids
}

// TestTorchrun starts a training by torchrun as docs/training.md says. A rank is killed, and the
// other one makes all steps.
func TestTorchrun(t *testing.T) {
	t.Parallel()
	python, err := harness.Tool("TORCH_PYTHON")
	harness.Need(t, "torch", err)
	harness.Need(t, "build", harness.Built())
	const epochs = 60
	program, commands := documented(t, "TestTorchrun", epochs)
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "train.py"), []byte(program), 0o600); err != nil {
		t.Fatal(err)
	}
	commands = strings.TrimSpace(strings.ReplaceAll(commands, "torchrun", python+" -m torch.distributed.run"))
	commands = strings.ReplaceAll(strings.ReplaceAll(commands, "HOST", "127.0.0.1"), "29500", harness.FreePort(t))
	var all []*launcher
	for number := range 2 {
		command := "exec " + strings.ReplaceAll(commands, "--node-rank 0", fmt.Sprint("--node-rank ", number))
		l := &launcher{exec.CommandContext(t.Context(), "/bin/sh", "-ec", command), filepath.Join(dir, fmt.Sprint(number))}
		output, err := os.Create(l.output)
		if err != nil {
			t.Fatal(err)
		}
		defer output.Close()
		l.Dir, l.Env, l.Stdout, l.Stderr = dir, append(environ(t.TempDir()), "PYTHONUNBUFFERED=1"), output, output
		l.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		if err := l.Start(); err != nil {
			t.Fatal(err)
		}
		// The launcher would wait five minutes for the other one.
		t.Cleanup(func() {
			_ = syscall.Kill(-l.Process.Pid, syscall.SIGKILL)
			_ = l.Wait()
			if t.Failed() {
				t.Logf("launcher %d:\n%s", number, l.said())
			}
		})
		all = append(all, l)
	}
	harness.Eventually(t, "both make steps", func() bool {
		return bytes.Contains(all[0].said(), []byte("\n20 ")) && bytes.Contains(all[1].said(), []byte("\n20 "))
	})
	for _, pid := range all[0].ranks() {
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
	}
	last := []byte(fmt.Sprintf("\n%d ", 10*epochs-1))
	harness.Eventually(t, "the other one makes all steps", func() bool { return bytes.Contains(all[1].said(), last) })
	harness.Eventually(t, "the model is there", func() bool {
		_, err := os.Stat(filepath.Join(dir, "model.pt"))
		return err == nil
	})
	if bytes.Contains(all[0].said(), last) {
		t.Error("the rank that was killed has made all steps")
	}
}
