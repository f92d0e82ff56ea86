package crash

import (
	"testing"

	"github.com/phos-gpu/phos/ckpt"
)

// TestBringSteps has each step of a restore fail, and phosd be killed there.
func TestBringSteps(t *testing.T) {
	for _, action := range []string{"error", "kill"} {
		t.Run(action, func(t *testing.T) {
			r := newRoom(t)
			r.job.Dump()
			r.tidy(0, 0)
			for _, step := range ckpt.BringSteps() {
				t.Run(step, func(t *testing.T) { r.in(t).bringFails(step, action) })
				if t.Failed() {
					return
				}
			}
			r.job.Restore()
			r.ends()
			r.tidy(0, 0)
		})
	}
}

// bring runs a restore that may fail.
func (r *room) bring(flags ...string) (string, error) {
	return r.job.TryCli(append([]string{"--restore", "--detach", "--dir", r.job.Image}, flags...)...)
}

// bringFails has a restore fail at a step, and looks at what is left; then it restores and saves.
func (r *room) bringFails(step, action string) {
	before := r.snapshot()
	r.daemon.Relaunch(ckpt.FailpointsVariable + "=" + step + "=" + action)
	if text, err := r.bring(); err == nil {
		r.t.Fatalf("the restore succeeds: %s", text)
	}
	if action == "kill" {
		r.daemon.Relaunch()
	}
	r.tidy(0, 0)
	r.unchanged(before, false)
	r.verified()
	r.daemon.Relaunch()
	r.job.RestoreDetached()
	r.runsOn()
	r.job.Dump()
	r.tidy(0, 0)
}
