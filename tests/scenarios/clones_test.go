package scenarios

import (
	"fmt"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// TestClones restores one image twice at once, beside the original: three programs with independent
// GPU work. A clone is saved again, and its image is restored with and without new pids.
func TestClones(t *testing.T) {
	for _, gpu := range []string{"gpu", "none"} {
		t.Run(gpu, func(t *testing.T) {
			d, dir := start(t), image(t)
			original := stepperCommand(t, program(d, gpu))
			original.step(3, 3)
			original.preDump(d, dir)
			first, second := restore(t, d, dir, "--new-pids"), restore(t, d, dir, "--new-pids")
			original.step(1, 4)
			first.step(2, 5)
			second.step(5, 8)
			if first.pid == second.pid || first.pid == original.pid {
				t.Fatalf("pids %d, %d and %d", original.pid, first.pid, second.pid)
			}
			// Save the clone while the other programs run.
			again := image(t)
			first.preDump(d, again)
			first.step(1, 6)
			third := restore(t, d, again, "--new-pids")
			third.step(2, 7)
			first.step(1, 7)
			// Save a clone of the clone as the second generation.
			third.preDump(d, again)
			fourth := restore(t, d, again, "--new-pids", "--generation", "2")
			fourth.step(1, 8)
			for status, a := range []*stepper{original, first, second, third, fourth} {
				a.step(1, []int{5, 8, 9, 8, 9}[status])
				a.finish(10 + status)
			}
			// Without new pids, the clone's image uses the original program's pid.
			last := restore(t, d, again, "--generation", "1")
			if last.pid != original.command.Process.Pid {
				t.Errorf("got pid %d, want %d", last.pid, original.command.Process.Pid)
			}
			last.step(1, 6)
			last.finish(20)
			d.Empty()
		})
	}
}

// TestPIDTaken restores a program while the original still runs.
func TestPIDTaken(t *testing.T) {
	d, dir := start(t), image(t)
	original := stepperCommand(t, program(d))
	original.step(3, 3)
	original.preDump(d, dir)
	text, err := cli(t, d, "--restore", "--dir", dir)
	if err == nil || !strings.Contains(text, fmt.Sprintf("pid %d", original.pid)) ||
		!strings.Contains(text, "--new-pids") ||
		!strings.Contains(text, "asked.py") {
		t.Errorf("restore while the original runs: %v: %s", err, text)
	}
	original.step(1, 4)
	original.finish(3)
	back := restore(t, d, dir)
	back.step(1, 4)
	back.finish(4)
	d.Empty()
}

// TestZombie: a parent that does not reap its child keeps the pid in use. The error names the
// parent.
func TestZombie(t *testing.T) {
	d, dir := start(t), image(t)
	original := stepperCommand(t, program(d))
	original.preDump(d, dir)
	if err := syscall.Kill(original.pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	d.Eventually("it has ended", func() bool { return zombie(original.pid) })
	text, err := cli(t, d, "--restore", "--dir", dir)
	if err == nil || !strings.Contains(text, "zombie") ||
		!strings.Contains(text, "pid "+strconv.Itoa(syscall.Getpid())+" ") {
		t.Errorf("restore with a zombie's pid: %v: %s", err, text)
	}
	original.await()
	back := restore(t, d, dir)
	back.step(1, 1)
	back.finish(4)
	d.Empty()
}
