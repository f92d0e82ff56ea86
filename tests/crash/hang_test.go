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

// stop sends SIGSTOP to a process; the returned function continues it.
func (r *fixture) stop(pid int) (wake func()) {
	r.t.Helper()
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		r.t.Fatal(err)
	}
	wake = func() { _ = syscall.Kill(pid, syscall.SIGCONT) }
	r.t.Cleanup(wake)
	return wake
}

// TestWorkerHangs: a hanging worker fails the checkpoint, but does not end the program.
func TestWorkerHangs(t *testing.T) {
	r := newFixture(t)
	r.job.PreDump()
	steps := []string{"precopy", "cut"}
	if full() {
		steps = []string{"precopy", "quiesce", "cut", "resume", "finish"}
	}
	for _, step := range steps {
		t.Run(step, func(t *testing.T) {
			r := r.forSubtest(t)
			before := r.snapshot()
			resume := r.pauseAt(step)
			from := r.logSize()
			var text string
			ended := make(chan error, 1)
			go func() {
				var err error
				text, err = r.tryCheckpoint(false)
				ended <- err
			}()
			r.waitStep(from, step)
			wake := r.stop(r.find("phosd worker "))
			resume()
			if err := r.await(ended); err == nil {
				t.Errorf("checkpoint succeeded, want failure: %s", text)
			}
			t.Log(text)
			wake()
			r.stillRuns()
			r.clean()
			r.unchanged(before, false)
			r.job.PreDump()
			r.verified()
		})
	}
	r.finishAndCompare()
	r.cleanWith(0, 0)
}

// await waits for ended, up to a time limit.
func (r *fixture) await(ended <-chan error) error {
	r.t.Helper()
	select {
	case err := <-ended:
		return err
	case <-time.After(3 * harness.Patience):
		r.t.Fatalf("the command did not end\n%s", r.log())
		return nil
	}
}

// TestProgramStopped: a program that was stopped by a signal is still stopped after a restore.
func TestProgramStopped(t *testing.T) {
	r := newFixture(t)
	wake := r.checkpointStopped()
	r.verified()
	lines := r.job.Lines()
	wake()
	r.stillRuns()
	r.clean()
	r.job.Kill()
	r.cleanWith(0, 0)
	r.restore()
	// Its files must have the content of the checkpoint, and it stays stopped until it is
	// continued.
	if now := r.job.Lines(); now > lines {
		t.Errorf("got %d lines, want %d as at the checkpoint", now, lines)
	}
	if err := syscall.Kill(r.job.PID, syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	r.stillRuns()
	r.finishAndCompare()
	r.cleanWith(0, 0)
}

// checkpointStopped stops the program and takes a checkpoint. A program that was stopped within a
// call cannot be saved, so it is continued and stopped again.
func (r *fixture) checkpointStopped() (wake func()) {
	r.t.Helper()
	for range 30 {
		wake = r.stop(r.job.PID)
		text, err := r.job.TryCli(
			"--pre-dump",
			"--idle-time",
			"5s",
			"--dir",
			r.job.Image,
			"--pid",
			fmt.Sprint(r.job.PID),
		)
		if err == nil {
			return wake
		}
		if !strings.Contains(text, "--idle-time gives it more time") {
			r.t.Fatalf("%v: %s", err, text)
		}
		wake()
		r.stillRuns()
	}
	r.t.Fatal("the program was within a call each time it was stopped")
	return nil
}

// TestCommandStopped: a pos_cli that does not read its messages does not block phosd.
func TestCommandStopped(t *testing.T) {
	r := newFixture(t)
	before := r.snapshot()
	resume := r.pauseAt("precopy")
	from := r.logSize()
	command := r.daemon.Command("--pre-dump", "--dir", r.job.Image, "--pid", fmt.Sprint(r.job.PID))
	var output bytes.Buffer
	command.Stdout, command.Stderr = &output, &output
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- command.Wait() }()
	r.waitStep(from, "precopy")
	wake := r.stop(command.Process.Pid)
	resume()
	r.waitStep(from, "end")
	r.stillRuns()
	r.oneGenerationMore(before)
	wake()
	if err := r.await(ended); err != nil {
		t.Errorf("%v: %s", err, output.String())
	}
	r.clean()
	r.finishAndCompare()
	r.cleanWith(0, 0)
}

// TestCRIUHangs: phosd kills a CRIU that hangs.
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
	r := newFixture(t, "--criu="+wrapper, "--checkpoint-deadline-seconds=3")
	r.job.PreDump("--idle-time", "2m")
	before := r.snapshot()
	hang()
	text, err := r.tryCheckpoint(false)
	if err == nil {
		t.Errorf("checkpoint succeeded, want failure: %s", text)
	}
	for _, want := range []string{
		fmt.Sprintf("the processes of pid %d were not written within ", r.job.PID),
		"CRIU", "its time was over", "--idle-time",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%q lacks %q", text, want)
		}
	}
	r.stillRuns()
	r.clean()
	r.unchanged(before, false)
	work()
	r.job.Dump("--idle-time", "2m")
	r.cleanWith(0, 0)
	r.job.Cli("image", "check", r.job.Image) // phosd caches the result of the check
	hang()
	if text, err = r.tryRestore(); err == nil || !strings.Contains(text, "CRIU") {
		t.Errorf("restore printed %q: %v", text, err)
	}
	t.Log(text)
	r.cleanWith(0, 0)
	work()
	r.job.Restore()
	r.finishAndCompare()
	r.cleanWith(0, 0)
}
