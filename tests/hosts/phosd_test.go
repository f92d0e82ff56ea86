package hosts

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/phos-gpu/phos/tests/harness"
)

// startProgram starts tests/workloads/checkpoint/count.c on a host, in a directory that all hosts
// share, which also gets its output.
func startProgram(t *testing.T, h *Host, program, dir string) *Command {
	t.Helper()
	inside := filepath.Join(SharedDir, dir)
	command := h.Program(context.Background(), program, "60", "20000", "1000")
	command.Dir = inside
	command.Env = append(command.Env, "HOLD="+filepath.Join(inside, "on"))
	// The host opens the files of the output: another host must find them by the same names.
	command.Args = append([]string{"bash", "-c", `exec "$0" "$@" >out 2>err`}, command.Args...)
	command.Path = "/bin/bash"
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	return command
}

// lines returns how many lines a program has printed.
func lines(h *Host, dir string) int {
	text, _ := os.ReadFile(filepath.Join(h.Shared(), dir, "out"))
	return bytes.Count(text, []byte{'\n'})
}

// pids returns those of the programs that a host's phosd serves.
func pids(h *Host) (found []int) {
	for _, each := range h.Status().Programs {
		found = append(found, each.PID)
	}
	return found
}

// share makes a directory that all hosts see below SharedDir.
func share(t *testing.T, h *Host, dir string) {
	t.Helper()
	if err := os.Mkdir(filepath.Join(h.Shared(), dir), 0o755); err != nil {
		t.Fatal(err)
	}
}

// release lets a program end.
func release(t *testing.T, h *Host, dir string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(h.Shared(), dir, "on"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
}

// TestPhosds: each host has its own phosd at the usual place, which serves its own programs only,
// and is started again after a boot.
func TestPhosds(t *testing.T) {
	program := harness.CompileC(t, true, harness.Workload("checkpoint", "count.c"))
	fleet := New(t, 2, Options{})
	var daemons []*Daemon
	var commands []*Command
	for i, each := range fleet {
		daemons = append(daemons, each.Phosd(i+1))
		share(t, each, each.Name)
		commands = append(commands, startProgram(t, each, program, each.Name))
	}
	for i, each := range fleet {
		harness.Eventually(t, "the program computes", func() bool { return lines(each, each.Name) > 3 })
		status := each.Status()
		if len(status.Programs) != 1 || status.Programs[0].PID != commands[i].PID() || len(status.GPUs) != i+1 {
			t.Errorf("%s: %+v, want the program %d", each.Name, status, commands[i].PID())
		}
	}
	fleet[0].Kill()
	if err := commands[0].Wait(); err == nil {
		t.Error("the program on the killed host ended well")
	}
	release(t, fleet[1], fleet[1].Name)
	if err := commands[1].Wait(); err == nil || commands[1].ProcessState.ExitCode() != 7 {
		t.Errorf("the program on the other host: %v", err)
	}
	fleet[0].Boot()
	daemons[0].Start()
	if got := pids(fleet[0]); len(got) > 0 {
		t.Errorf("after the boot there are the programs %v", got)
	}
}

// TestMoved: a program that was saved on one host into a shared directory goes on at another, and
// ends as one that was not disturbed.
func TestMoved(t *testing.T) {
	_, err := harness.CRIU()
	harness.Need(t, "criu", err)
	program := harness.CompileC(t, true, harness.Workload("checkpoint", "count.c"))
	fleet := New(t, 2, Options{})
	a, b := fleet[0], fleet[1]
	a.Phosd(1)
	b.Phosd(1)
	for _, dir := range []string{"undisturbed", "moved"} {
		share(t, a, dir)
	}
	release(t, a, "undisturbed")
	_ = startProgram(t, a, program, "undisturbed").Wait() // with status 7
	command := startProgram(t, a, program, "moved")
	harness.Eventually(t, "the program computes", func() bool { return lines(a, "moved") > 5 })
	pid := command.PID()
	a.RunCLI("--dump", "--dir", filepath.Join(SharedDir, "image"), "--pid", strconv.Itoa(pid))
	if err := command.Wait(); err == nil {
		t.Error("the saved program ended well")
	}
	a.Kill() // nothing of it is needed
	restore := b.Start("restore", b.Binary("pos_cli"),
		"--restore", "--trust-seal", "--dir", filepath.Join(SharedDir, "image"))
	harness.Eventually(t, "phosd serves the restored program", func() bool {
		if !restore.Alive() {
			t.Fatalf("restore: %v: %s", restore.Await(), restore.LogText())
		}
		return len(pids(b)) == 1
	})
	if got := pids(b); got[0] != pid {
		t.Errorf("restored as pid %d, want %d", got[0], pid)
	}
	release(t, b, "moved")
	var ended *exec.ExitError
	if err := restore.Await(); !errors.As(err, &ended) || ended.ExitCode() != 7 {
		t.Fatalf("the restored program: %v", err)
	}
	for _, name := range []string{"out", "err", "steps"} {
		want, err := os.ReadFile(filepath.Join(b.Shared(), "undisturbed", name))
		if err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(filepath.Join(b.Shared(), "moved", name))
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s: %d bytes, %v, want %d bytes: %.300s", name, len(got), err, len(want), got)
		}
	}
}
