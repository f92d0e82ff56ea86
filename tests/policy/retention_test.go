package policy

import (
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"

	"github.com/phos-gpu/phos/tests/harness"
)

// TestKeepEnded: images of ended programs are removed after their time, and those of running
// programs stay. The metrics count both, also after a restart of phosd.
func TestKeepEnded(t *testing.T) {
	base, socket := shared(t), filepath.Join(t.TempDir(), "metrics")
	daemon := start(t, "--checkpoint-dir="+base, "--checkpoint-every=1s", "--checkpoint-keep-ended=1s",
		"--metrics-listen=unix:"+socket)
	ends, runs := countingJob(t, daemon, "1500", "2000", "20000"), countingJob(t, daemon, "1500", "2000", "20000")
	var dirs []string
	for _, job := range []*harness.Job{ends, runs} {
		job.Start()
		dirs = append(dirs, saved(daemon, job))
	}
	daemon.Kill()
	ends.Kill()
	daemon.Launch()
	daemon.Eventually("the ended program's image is removed", func() bool {
		_, err := os.Stat(dirs[0])
		return os.IsNotExist(err)
	})
	daemon.LogContains("image removed")
	daemon.Eventually("the bytes of the other image are known", func() bool {
		return numbers(t, socket)[`phos_user_held_bytes{setting="users.image_bytes",user="root"`] > 0
	})
	if got := numbers(t, socket)[`phos_images_removed_total{reason="age"`]; got != 1 {
		t.Errorf("got %v removed images, want 1", got)
	}
	if got := generationsIn(t, runs, dirs[1]); len(got) == 0 {
		t.Error("the running program's image has no generation")
	}
	runs.Kill()
	daemon.Empty()
}

// TestEndsInFirstCheckpoint: a program ends while it is saved for the first time. No image without
// a generation stays.
func TestEndsInFirstCheckpoint(t *testing.T) {
	base := shared(t)
	daemon := start(t, "--checkpoint-dir="+base, "--checkpoint-every=1s", "--checkpoint-bandwidth=1MiB")
	own, other := countingJob(t, daemon, "1500", "4000000", "20000"), countingJob(t, daemon, "1500", "4000000", "20000")
	writePolicy(t, own, "checkpoint: {dir: ../image, every: 1s, bandwidth: 1MiB}\n")
	for _, job := range []*harness.Job{own, other} {
		job.Start()
	}
	for _, job := range []*harness.Job{own, other} {
		daemon.Eventually("it is being saved", func() bool { return programOf(daemon, job).GetCheckpointRunning() })
		job.Signal(syscall.SIGKILL)
		job.WaitGone()
	}
	daemon.Eventually("nothing is left of the images", func() bool {
		left, err := filepath.Glob(base + "/*/*")
		inOwn, _ := filepath.Glob(own.Image + "/*")
		return err == nil && len(slices.Concat(left, inOwn)) == 0
	})
	daemon.Empty()
}
