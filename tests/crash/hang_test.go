package crash

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/phos-gpu/phos/tests/harness"
)

// stopped stops a process until the test continues it.
func (r *room) stopped(pid int) (wake func()) {
	r.t.Helper()
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		r.t.Fatal(err)
	}
	wake = func() { _ = syscall.Kill(pid, syscall.SIGCONT) }
	r.t.Cleanup(wake)
	return wake
}

// TestWorkerHangs: a worker that hangs ends the checkpoint, but not the program.
func TestWorkerHangs(t *testing.T) {
	r := newRoom(t)
	r.job.PreDump()
	steps := []string{"precopy", "cut"}
	if full() {
		steps = []string{"precopy", "quiesce", "cut", "go-on", "finish"}
	}
	for _, step := range steps {
		t.Run(step, func(t *testing.T) {
			r := r.in(t)
			before := r.snapshot()
			goOn := r.heldUp(step)
			from := r.logged()
			var text string
			ended := make(chan error, 1)
			go func() {
				var err error
				text, err = r.save(false)
				ended <- err
			}()
			r.reaches(from, step)
			wake := r.stopped(r.find("phosd worker "))
			goOn()
			if err := r.await(ended); err == nil {
				t.Errorf("the checkpoint succeeds: %s", text)
			}
			t.Log(text)
			wake()
			r.runsOn()
			r.alone()
			r.unchanged(before, false)
			r.job.PreDump()
			r.verified()
		})
	}
	r.ends()
	r.tidy(0, 0)
}

// await waits, with a limit, for the end of something.
func (r *room) await(ended <-chan error) error {
	r.t.Helper()
	select {
	case err := <-ended:
		return err
	case <-time.After(3 * harness.Patience):
		r.t.Fatalf("it does not end\n%s", r.log())
		return nil
	}
}

// TestProgramStopped: a program that was stopped by a signal is saved as what it is.
func TestProgramStopped(t *testing.T) {
	r := newRoom(t)
	wake := r.savedStopped()
	r.verified()
	lines := r.job.Lines()
	wake()
	r.runsOn()
	r.alone()
	r.job.Kill()
	r.tidy(0, 0)
	r.restore()
	// Its files are those of that moment again, and it stands still until it is woken.
	if now := r.job.Lines(); now > lines {
		t.Errorf("%d lines, %d when it was saved", now, lines)
	}
	if err := syscall.Kill(r.job.PID, syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	r.runsOn()
	r.ends()
	r.tidy(0, 0)
}

// savedStopped stops the program and saves it. One that was stopped in the middle of a call cannot
// be saved, and is stopped again later.
func (r *room) savedStopped() (wake func()) {
	r.t.Helper()
	for range 30 {
		wake = r.stopped(r.job.PID)
		text, err := r.job.TryCli(
			"--pre-dump",
			"--deadline",
			"5s",
			"--dir",
			r.job.Image,
			"--pid",
			fmt.Sprint(r.job.PID),
		)
		if err == nil {
			return wake
		}
		if !strings.Contains(text, "--deadline gives it more time") {
			r.t.Fatalf("%v: %s", err, text)
		}
		wake()
		r.runsOn()
	}
	r.t.Fatal("it is in the middle of a call whenever it is stopped")
	return nil
}

// TestCommandStopped: a pos_cli that does not read its messages does not block phosd.
func TestCommandStopped(t *testing.T) {
	r := newRoom(t)
	before := r.snapshot()
	goOn := r.heldUp("precopy")
	from := r.logged()
	command := r.daemon.Command("--pre-dump", "--dir", r.job.Image, "--pid", fmt.Sprint(r.job.PID))
	var said bytes.Buffer
	command.Stdout, command.Stderr = &said, &said
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- command.Wait() }()
	r.reaches(from, "precopy")
	wake := r.stopped(command.Process.Pid)
	goOn()
	r.reaches(from, "end")
	r.runsOn()
	r.grown(before)
	wake()
	if err := r.await(ended); err != nil {
		t.Errorf("%v: %s", err, said.String())
	}
	r.alone()
	r.ends()
	r.tidy(0, 0)
}

// TestCRIUHangs: a CRIU that never ends is ended.
func TestCRIUHangs(t *testing.T) {
	real, err := harness.CRIU()
	harness.Need(t, "criu", err)
	dir := t.TempDir()
	wrapper, hangs := filepath.Join(dir, "criu"), filepath.Join(dir, "hangs")
	script := fmt.Sprintf("#!/bin/sh\n[ -e %s ] && exec sleep 1000\nexec %s \"$@\"\n", hangs, real)
	if err := os.WriteFile(wrapper, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	hang := func() {
		if err := os.WriteFile(hangs, nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	work := func() {
		if err := os.Remove(hangs); err != nil {
			t.Fatal(err)
		}
	}
	r := newRoom(t, "--criu="+wrapper, "--checkpoint-deadline-seconds=5")
	r.job.PreDump("--deadline", "2m")
	before := r.snapshot()
	hang()
	text, err := r.save(false)
	if err == nil {
		t.Errorf("the checkpoint succeeds: %s", text)
	}
	for _, says := range []string{fmt.Sprintf("the processes of pid %d were not written within ", r.job.PID), "CRIU", "its time was over", "--deadline"} {
		if !strings.Contains(text, says) {
			t.Errorf("%q lacks %q", text, says)
		}
	}
	r.runsOn()
	r.alone()
	r.unchanged(before, false)
	work()
	r.job.Dump("--deadline", "2m")
	r.tidy(0, 0)
	r.job.Cli("image", "check", r.job.Image) // phosd remembers that CRIU works
	hang()
	if text, err = r.bring(); err == nil || !strings.Contains(text, "CRIU") {
		t.Errorf("the restore says %q: %v", text, err)
	}
	t.Log(text)
	r.tidy(0, 0)
	work()
	r.job.Restore()
	r.ends()
	r.tidy(0, 0)
}
