package crash

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"github.com/phos-gpu/phos/ckpt"
)

// TestRestoreSteps lets each step of a restore fail, and kills phosd at each step.
func TestRestoreSteps(t *testing.T) {
	for _, action := range []string{"error", "kill"} {
		t.Run(action, func(t *testing.T) {
			r := newFixture(t)
			r.job.Dump()
			r.cleanWith(0, 0)
			for _, step := range ckpt.RestoreSteps() {
				t.Run(step, func(t *testing.T) { r.forSubtest(t).restoreFails(step, action) })
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

// tryRestore runs a restore that may fail.
func (r *fixture) tryRestore(flags ...string) (string, error) {
	return r.job.TryCli(append([]string{"--restore", "--detach", "--dir", r.job.Image}, flags...)...)
}

// restoreFails lets a restore fail at a step and checks what is left. Then it restores the program
// and takes a checkpoint.
func (r *fixture) restoreFails(step, action string) {
	before := r.snapshot()
	r.daemon.Relaunch(ckpt.FailpointsVariable + "=" + step + "=" + action)
	if text, err := r.tryRestore(); err == nil {
		r.t.Fatalf("restore succeeded, want failure: %s", text)
	}
	if action == "kill" {
		r.daemon.Relaunch()
	}
	r.cleanWith(0, 0)
	r.unchanged(before, false)
	r.verified()
	r.daemon.Relaunch()
	r.job.RestoreDetached()
	r.stillRuns()
	r.job.Dump()
	r.cleanWith(0, 0)
}

// TestSavedDuringRestore: a checkpoint of a program that exists, but is still being restored, waits
// until the program runs.
func TestSavedDuringRestore(t *testing.T) {
	r := newFixture(t)
	r.job.Dump()
	for _, step := range []string{"attach", "keep"} {
		t.Run(step, func(t *testing.T) {
			r := r.forSubtest(t)
			resume := r.pauseAt(step)
			from := r.logSize()
			restored, saved := make(chan error, 1), make(chan error, 1)
			var said, told string
			go func() {
				text, err := r.tryRestore()
				said = text
				restored <- err
			}()
			r.waitStep(from, step)
			go func() {
				text, err := r.tryCheckpoint(true)
				told = text
				saved <- err
			}()
			r.waitLog(from, "checkpoint asked for")
			resume()
			if err := r.await(restored); err != nil {
				t.Errorf("%v: %s", err, said)
			}
			if err := r.await(saved); err != nil || strings.Contains(told, "CPU half") {
				t.Errorf("%v: %s", err, told)
			}
			r.inOrder(from, "keep", "begin")
			r.cleanWith(0, 0)
		})
	}
	r.daemon.Relaunch()
	r.job.Restore()
	r.finishAndCompare()
	r.cleanWith(0, 0)
}

// inOrder checks that the log, from an offset on, reports one step before another.
func (r *fixture) inOrder(from int, first, second string) {
	r.t.Helper()
	text, err := os.ReadFile(r.daemon.Log)
	if err != nil {
		r.t.Fatal(err)
	}
	at := func(step string) int { return bytes.Index(text[from:], []byte("msg=step name="+step+"\n")) }
	if at(first) < 0 || at(first) > at(second) {
		r.t.Errorf("step %s came before step %s", second, first)
	}
}
