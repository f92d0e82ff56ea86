package crash

import (
	"fmt"
	"os"
	"testing"

	"github.com/phos-gpu/phos/ckpt"
)

// save runs a checkpoint that may fail.
func (r *room) save(stop bool) (string, error) {
	verb := map[bool]string{false: "--pre-dump", true: "--dump"}[stop]
	return r.job.TryCli(verb, "--dir", r.job.Image, "--pid", fmt.Sprint(r.job.PID))
}

// complete says whether the image is complete when a step is reached.
func complete(step string) bool { return step == "end" }

// TestSaveSteps has each step of a checkpoint fail, and phosd be killed there.
func TestSaveSteps(t *testing.T) {
	for _, stop := range []bool{false, true} {
		for _, action := range []string{"error", "kill"} {
			if !full() && stop == (action == "kill") {
				continue
			}
			t.Run(fmt.Sprintf("stop=%v/%s", stop, action), func(t *testing.T) {
				r := newRoom(t)
				r.job.PreDump()
				for _, step := range ckpt.SaveSteps() {
					if step == "publish" {
						continue // only on the way to a stream
					}
					t.Run(step, func(t *testing.T) { r.in(t).saveFails(step, action, stop) })
					if t.Failed() {
						return
					}
				}
				r.ends()
				r.tidy(0, 0)
				r.job.Restore()
				r.tidy(1, 1)
				r.ends()
				r.tidy(0, 0)
			})
		}
	}
}

// saveFails has a checkpoint fail at a step, and looks at what is left.
func (r *room) saveFails(step, action string, stop bool) {
	before := r.snapshot()
	r.daemon.Relaunch(ckpt.FailpointsVariable + "=" + step + "=" + action)
	text, err := r.save(stop)
	if err == nil {
		r.t.Fatalf("the checkpoint succeeds: %s", text)
	}
	if action == "kill" {
		r.daemon.Relaunch()
	}
	r.runsOn()
	r.tidy(1, 0)
	if complete(step) {
		r.grown(before)
	} else {
		r.unchanged(before, action == "kill")
	}
	r.daemon.Relaunch()
	r.job.PreDump()
	r.verified()
	if _, err := os.Stat(r.job.Image + "/tmp"); err == nil {
		if left, _ := os.ReadDir(r.job.Image + "/tmp"); len(left) > 0 {
			r.t.Errorf("left in tmp: %v", left)
		}
	}
}
