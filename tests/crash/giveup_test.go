package crash

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/phos-gpu/phos/ckpt"
)

// interrupted starts a command of pos_cli that is held up at a step, interrupts it there as Ctrl-C,
// kill, or the end of a terminal does, and returns what it says. When it has ended, phosd must have
// taken everything back.
func (r *room) interrupted(step string, command *exec.Cmd) string {
	r.t.Helper()
	goOn := r.heldUp(step)
	defer goOn() // for what comes next
	from := r.logged()
	var said bytes.Buffer
	command.Stdout, command.Stderr = &said, &said
	if err := command.Start(); err != nil {
		r.t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- command.Wait() }()
	r.reaches(from, step)
	how := []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP}[len(step)%3]
	if err := command.Process.Signal(how); err != nil {
		r.t.Fatal(err)
	}
	if err := r.await(ended); err == nil {
		r.t.Errorf("it succeeds: %s", said.String())
	}
	return said.String()
}

// TestSaveInterrupted gives up at each step of a checkpoint.
func TestSaveInterrupted(t *testing.T) {
	r := newRoom(t)
	r.job.PreDump()
	for i, step := range ckpt.SaveSteps() {
		if step == "publish" || step == "end" {
			continue // only on the way to a stream; too late
		}
		t.Run(step, func(t *testing.T) {
			r := r.in(t)
			before := r.snapshot()
			verb := []string{"--pre-dump", "--dump"}[i%2]
			text := r.interrupted(step, r.daemon.Command(verb, "--dir", r.job.Image, "--pid", fmt.Sprint(r.job.PID)))
			if !strings.Contains(text, "cancelled: pid") {
				t.Errorf("it says %q", text)
			}
			// At once: the command that gave up has waited for this.
			r.unchanged(before, false)
			if text := r.untidy(1, 0); text != "" {
				t.Error(text)
			}
			r.runsOn()
		})
		if t.Failed() {
			return
		}
	}
	// Into a directory that is made for it.
	there := r.job.Image
	r.job.Image += "-2"
	r.interrupted("commit", r.daemon.Command("--pre-dump", "--dir", r.job.Image, "--pid", fmt.Sprint(r.job.PID)))
	if _, err := os.Stat(r.job.Image); err == nil {
		t.Errorf("%s is left: %v", r.job.Image, r.snapshot())
	}
	r.job.Image = there
	r.ends()
	r.tidy(0, 0)
}

// TestBringInterrupted gives up at each step of a restore, and of a pre-restore.
func TestBringInterrupted(t *testing.T) {
	for _, verb := range []string{"--restore", "--pre-restore"} {
		t.Run(verb, func(t *testing.T) {
			r := newRoom(t)
			r.job.Dump()
			before := r.snapshot()
			for _, step := range ckpt.BringSteps() {
				if verb == "--pre-restore" && step == "restore-hold" {
					break
				}
				t.Run(step, func(t *testing.T) {
					r := r.in(t)
					text := r.interrupted(step, r.daemon.Command(verb, "--dir", r.job.Image))
					if !strings.Contains(text, "cancelled: ") {
						t.Errorf("it says %q", text)
					}
					if text := r.untidy(0, 0); text != "" {
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
			r.ends()
			r.tidy(0, 0)
		})
	}
}
