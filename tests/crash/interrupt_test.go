package crash

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"testing"

	"github.com/phos-gpu/phos/ckpt"
)

// interrupted starts a command of pos_cli, pauses it at a step, and interrupts it there with the
// signal of Ctrl-C, kill, or a closed terminal. It returns the command's output. When the command
// has ended, phosd must have undone everything.
func (r *fixture) interrupted(step string, command *exec.Cmd) string {
	r.t.Helper()
	resume := r.pauseAt(step)
	defer resume() // for the next command
	from := r.logSize()
	var output bytes.Buffer
	command.Stdout, command.Stderr = &output, &output
	if err := command.Start(); err != nil {
		r.t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- command.Wait() }()
	r.waitStep(from, step)
	how := []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP}[len(step)%3]
	if signal.Ignored(how) { // the tests were started by nohup, or in the background
		how = syscall.SIGTERM
	}
	if err := command.Process.Signal(how); err != nil {
		r.t.Fatal(err)
	}
	if err := r.await(ended); err == nil {
		r.t.Errorf("command succeeded, want failure: %s", output.String())
	}
	return output.String()
}

// TestCheckpointInterrupted cancels a checkpoint at each step.
func TestCheckpointInterrupted(t *testing.T) {
	r := newFixture(t)
	r.job.PreDump()
	for i, step := range ckpt.CheckpointSteps() {
		if step == "publish" || step == "end" {
			continue // only taken for a stream; too late to cancel
		}
		t.Run(step, func(t *testing.T) {
			r := r.forSubtest(t)
			before := r.snapshot()
			verb := []string{"--pre-dump", "--dump"}[i%2]
			text := r.interrupted(step, r.daemon.Command(verb, "--dir", r.job.Image, "--pid", fmt.Sprint(r.job.PID)))
			if !strings.Contains(text, "cancelled: pid") {
				t.Errorf("output is %q", text)
			}
			// No polling: the interrupted command has already waited for the cleanup.
			r.unchanged(before, false)
			if text := r.leftovers(1, 0); text != "" {
				t.Error(text)
			}
			r.stillRuns()
		})
		if t.Failed() {
			return
		}
	}
	// The directory is created for this image.
	there := r.job.Image
	r.job.Image += "-2"
	r.interrupted("commit", r.daemon.Command("--pre-dump", "--dir", r.job.Image, "--pid", fmt.Sprint(r.job.PID)))
	if _, err := os.Stat(r.job.Image); err == nil {
		t.Errorf("%s was left behind: %v", r.job.Image, r.snapshot())
	}
	r.job.Image = there
	r.finishAndCompare()
	r.cleanWith(0, 0)
}

// TestRestoreInterrupted cancels a restore and a pre-restore at each step.
func TestRestoreInterrupted(t *testing.T) {
	for _, verb := range []string{"--restore", "--pre-restore"} {
		t.Run(verb, func(t *testing.T) {
			r := newFixture(t)
			r.job.Dump()
			before := r.snapshot()
			for _, step := range ckpt.RestoreSteps() {
				if verb == "--pre-restore" && step == "restore-hold" {
					break
				}
				t.Run(step, func(t *testing.T) {
					r := r.forSubtest(t)
					text := r.interrupted(step, r.daemon.Command(verb, "--dir", r.job.Image))
					if !strings.Contains(text, "cancelled: ") {
						t.Errorf("output is %q", text)
					}
					if text := r.leftovers(0, 0); text != "" {
						t.Error(text)
					}
					r.unchanged(before, false)
				})
				if t.Failed() {
					return
				}
			}
			r.daemon.Relaunch()
			r.job.Restore()
			r.finishAndCompare()
			r.cleanWith(0, 0)
		})
	}
}
