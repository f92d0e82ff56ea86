package crash

import (
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
