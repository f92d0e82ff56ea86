package scenarios

import (
	"fmt"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// TestClones restores one image twice at once, beside the program itself: three programs with GPU
// work and an end of their own. A clone is saved again, and its image restored, with pids of its
// own and without.
func TestClones(t *testing.T) {
	for _, gpu := range []string{"gpu", "none"} {
		t.Run(gpu, func(t *testing.T) {
			d, dir := start(t), image(t)
			original := ask(t, program(d, gpu))
			original.does(3, 3)
			original.preDump(d, dir)
			first, second := restore(t, d, dir, "--new-pids"), restore(t, d, dir, "--new-pids")
			original.does(1, 4)
			first.does(2, 5)
			second.does(5, 8)
			if first.pid == second.pid || first.pid == original.pid {
				t.Fatalf("pids %d, %d and %d", original.pid, first.pid, second.pid)
			}
			// Of the clone, while the others go on.
			again := image(t)
			first.preDump(d, again)
			first.does(1, 6)
			third := restore(t, d, again, "--new-pids")
			third.does(2, 7)
			first.does(1, 7)
			// A second generation of what a third generation of processes is.
			third.preDump(d, again)
			fourth := restore(t, d, again, "--new-pids", "--generation", "2")
			fourth.does(1, 8)
			for status, a := range []*asked{original, first, second, third, fourth} {
				a.does(1, []int{5, 8, 9, 8, 9}[status])
				a.ends(10 + status)
			}
			// The clone's image without a namespace has the pid that the program had at first.
			last := restore(t, d, again, "--generation", "1")
			if last.pid != original.command.Process.Pid {
				t.Errorf("the pid is %d, and was %d", last.pid, original.command.Process.Pid)
			}
			last.does(1, 6)
			last.ends(20)
			d.Empty()
		})
	}
}

// TestPIDTaken restores beside the program itself.
func TestPIDTaken(t *testing.T) {
	d, dir := start(t), image(t)
	original := ask(t, program(d))
	original.does(3, 3)
	original.preDump(d, dir)
	text, err := cli(t, d, "--restore", "--dir", dir)
	if err == nil || !strings.Contains(text, fmt.Sprintf("pid %d", original.pid)) ||
		!strings.Contains(text, "--new-pids") ||
		!strings.Contains(text, "asked.py") {
		t.Errorf("restored beside itself: %v: %s", err, text)
	}
	original.does(1, 4)
	original.ends(3)
	back := restore(t, d, dir)
	back.does(1, 4)
	back.ends(4)
	d.Empty()
}

// TestUnburied: a parent that never asks how its program ended keeps its pid, and is named.
func TestUnburied(t *testing.T) {
	d, dir := start(t), image(t)
	original := ask(t, program(d))
	original.preDump(d, dir)
	if err := syscall.Kill(original.pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	d.Eventually("it has ended", func() bool { return zombie(original.pid) })
	text, err := cli(t, d, "--restore", "--dir", dir)
	if err == nil || !strings.Contains(text, "zombie") ||
		!strings.Contains(text, "pid "+strconv.Itoa(syscall.Getpid())+" ") {
		t.Errorf("restored over a zombie: %v: %s", err, text)
	}
	original.await()
	back := restore(t, d, dir)
	back.does(1, 1)
	back.ends(4)
	d.Empty()
}
