package crash

import (
	"fmt"
	"os"
	"testing"

	"github.com/phos-gpu/phos/ckpt"
)

// tryCheckpoint takes a checkpoint that may fail.
func (r *fixture) tryCheckpoint(stop bool) (string, error) {
	verb := map[bool]string{false: "--pre-dump", true: "--dump"}[stop]
	return r.job.TryCli(verb, "--dir", r.job.Image, "--pid", fmt.Sprint(r.job.PID))
}

// complete reports whether the image is complete when a step is reached.
func complete(step string) bool { return step == "end" }

// TestCheckpointSteps lets each step of a checkpoint fail, and kills phosd at each step.
func TestCheckpointSteps(t *testing.T) {
	for _, stop := range []bool{false, true} {
		for _, action := range []string{"error", "kill"} {
			if !full() && stop == (action == "kill") {
				continue
			}
			t.Run(fmt.Sprintf("stop=%v/%s", stop, action), func(t *testing.T) {
				r := newFixture(t)
				r.job.PreDump()
				for _, step := range ckpt.CheckpointSteps() {
					if step == "publish" {
						continue // only taken for a stream
					}
					t.Run(step, func(t *testing.T) { r.forSubtest(t).checkpointFails(step, action, stop) })
					if t.Failed() {
						return
					}
				}
				r.finishAndCompare()
				r.cleanWith(0, 0)
				r.job.Restore()
				r.cleanWith(1, 1)
				r.finishAndCompare()
				r.cleanWith(0, 0)
			})
		}
	}
}

// checkpointFails lets a checkpoint fail at a step and checks what is left.
func (r *fixture) checkpointFails(step, action string, stop bool) {
	before := r.snapshot()
	r.daemon.Relaunch(ckpt.FailpointsVariable + "=" + step + "=" + action)
	text, err := r.tryCheckpoint(stop)
	if err == nil {
		r.t.Fatalf("checkpoint succeeded, want failure: %s", text)
	}
	if action == "kill" {
		r.daemon.Relaunch()
	}
	r.stillRuns()
	r.cleanWith(1, 0)
	if complete(step) {
		r.oneGenerationMore(before)
	} else {
		r.unchanged(before, action == "kill")
	}
	r.daemon.Relaunch()
	r.job.PreDump()
	r.verified()
	if _, err := os.Stat(r.job.Image + "/tmp"); err == nil {
		if left, _ := os.ReadDir(r.job.Image + "/tmp"); len(left) > 0 {
			r.t.Errorf("left behind in tmp: %v", left)
		}
	}
}
