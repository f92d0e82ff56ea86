package crash

import (
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/phos-gpu/phos/ckpt"
)

// victim is a process that is killed while a step is paused.
type victim struct {
	name string
	// command is part of its command line.
	command string
	// from and to are the first and the last step at which it exists; empty means all.
	from, to string
	// fatal is set if the program dies with it.
	fatal bool
}

var checkpointVictims = []victim{
	{"worker", "phosd worker ", "", "", true},
	{"program", " enough", "", "", true},
	{"watchdog", "phosd watchdog", "cut", "resume", false},
	{"pos_cli", "/pos_cli --", "", "", false},
}

var restoreVictims = []victim{
	{"worker", "phosd worker ", "ready", "", true},
	{"program", " enough", "attach", "", true},
	{"restorer", "phosd restorer", "attach", "", true},
	{"pos_cli", "/pos_cli --", "", "", false},
}

// at returns the steps at which a victim exists.
func (v victim) at(steps []string) []string {
	steps = slices.DeleteFunc(slices.Clone(steps), func(step string) bool { return step == "publish" })
	from, to := 0, len(steps)
	if v.from != "" {
		from = slices.Index(steps, v.from)
	}
	if v.to != "" {
		to = slices.Index(steps, v.to) + 1
	}
	return sample(steps[from:to], len(v.name))
}

// sample returns all steps with CRASH=full, otherwise every second one.
func sample(steps []string, which int) (some []string) {
	for i, step := range steps {
		if full() || i%2 == which%2 {
			some = append(some, step)
		}
	}
	return some
}

// isNamed checks that an error says that the victim is lost, in words and not in the kernel's.
func (v victim) isNamed(t *testing.T, text string) {
	t.Helper()
	ended := strings.Contains(text, "killed by SIGKILL") || strings.Contains(text, "its exit status is unknown") ||
		strings.Contains(text, "ended while it was saved")
	if v.name == "worker" && !ended {
		t.Errorf("it does not say how the worker has ended: %s", text)
	}
	for _, raw := range []string{"EOF", "broken pipe", "connection reset", "no such file", "connection refused"} {
		if strings.Contains(text, raw) {
			t.Errorf("it says only %q: %s", raw, text)
		}
	}
}

// noDaemon is the exit status of pos_cli when phosd is not running.
const noDaemon = 3

// killAt starts a command of pos_cli, pauses it at a step, and kills the victim there. It returns
// how the command ends after it continues.
func (r *fixture) killAt(step string, v victim, command *exec.Cmd) (string, error) {
	r.t.Helper()
	resume := r.pauseAt(step)
	from := r.logSize()
	done := make(chan error, 1)
	var output []byte
	go func() {
		var err error
		output, err = command.CombinedOutput()
		done <- err
	}()
	r.waitStep(from, step)
	pid := r.find(v.command)
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		r.t.Fatal(err)
	}
	r.eventually(func() string { return describe(pid) })
	if v.name == "pos_cli" {
		// phosd notices the closed connection and cancels the step, unless that is no longer
		// possible.
		r.waitLog(from, fmt.Sprintf("caller disconnected.* caller=%d ", pid))
	}
	resume()
	err := r.await(done)
	if exit := new(exec.ExitError); errors.As(err, &exit) && exit.ExitCode() == noDaemon {
		r.t.Errorf("reported that phosd exited, but another process did: %s", output)
	}
	return string(output), err
}

// TestCallersStay: phosd must not log that a caller has left if the caller got its reply.
func TestCallersStay(t *testing.T) {
	r := newFixture(t)
	from := r.logSize()
	for range 5 {
		r.job.PreDump()
		r.job.Dump()
		r.job.Restore()
		r.job.Dump()
		r.restore()
	}
	r.finishAndCompare()
	r.cleanWith(0, 0)
	if text := read(t, r.daemon.Log); strings.Contains(text[from:], "caller disconnected") {
		t.Error("the log reports that a caller left")
	}
}

// TestCheckpointVictims kills, at each step of a checkpoint, each participating process except
// phosd.
func TestCheckpointVictims(t *testing.T) {
	for _, v := range checkpointVictims {
		t.Run(v.name, func(t *testing.T) {
			r := newFixture(t)
			r.job.PreDump()
			for i, step := range v.at(ckpt.CheckpointSteps()) {
				t.Run(step, func(t *testing.T) { r.forSubtest(t).checkpointLosesVictim(step, v, i%2 == 1) })
				if t.Failed() {
					return
				}
			}
			r.finishAndCompare()
			r.cleanWith(0, 0)
		})
	}
}

// checkpointLosesVictim kills a victim during a checkpoint.
func (r *fixture) checkpointLosesVictim(step string, v victim, stop bool) {
	before := r.snapshot()
	verb := map[bool]string{false: "--pre-dump", true: "--dump"}[stop]
	text, err := r.killAt(step, v, r.daemon.Command(verb, "--dir", r.job.Image, "--pid", fmt.Sprint(r.job.PID)))
	dead := v.fatal || stop && (err == nil || v.name == "pos_cli" && complete(step))
	if dead {
		r.job.Finish()
		r.cleanWith(0, 0)
	} else {
		r.stillRuns()
		r.clean()
	}
	switch {
	case err == nil || complete(step):
		r.oneGenerationMore(before)
	default:
		r.unchanged(before, false)
	}
	r.t.Logf("stop %v: %v: %s", stop, err, text)
	if err != nil {
		v.isNamed(r.t, text)
	}
	if dead {
		r.restore()
	}
	r.job.PreDump()
	r.verified()
}

// TestRestoreVictims kills, at each step of a restore, each participating process except phosd.
func TestRestoreVictims(t *testing.T) {
	for _, v := range restoreVictims {
		t.Run(v.name, func(t *testing.T) {
			r := newFixture(t)
			r.job.Dump()
			r.cleanWith(0, 0)
			for _, step := range v.at(ckpt.RestoreSteps()) {
				t.Run(step, func(t *testing.T) { r.forSubtest(t).restoreLosesVictim(step, v) })
				if t.Failed() {
					return
				}
			}
			r.job.Restore()
			r.finishAndCompare()
			r.cleanWith(0, 0)
		})
	}
}

// restoreLosesVictim kills a victim during a restore.
func (r *fixture) restoreLosesVictim(step string, v victim) {
	before := r.snapshot()
	text, err := r.killAt(step, v, r.daemon.Command("--restore", "--dir", r.job.Image))
	if err == nil {
		r.t.Errorf("restore succeeded, want failure: %s", text)
	}
	if !strings.Contains(text, "runs again") {
		v.isNamed(r.t, text)
	}
	r.t.Logf("%v: %s", err, text)
	r.cleanWith(0, 0)
	r.unchanged(before, false)
	r.waitPIDFree()
	r.restore()
	r.stillRuns()
	r.job.Dump()
	r.cleanWith(0, 0)
}
