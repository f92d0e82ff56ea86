package checkpoint

import (
	"fmt"
	"strings"
	"syscall"
	"testing"

	"github.com/phos-gpu/phos/tests/harness"
)

// TestCallsSurvive saves programs that use a group of calls each, halfway: what the calls have made
// is there afterwards.
func TestCallsSurvive(t *testing.T) {
	_, err := harness.CRIU()
	harness.Need(t, "criu", err)
	daemon := harness.Start(t, "--gpus=soft:2")
	for _, name := range []string{"memops", "ipc", "peers", "batch", "handles", "attributes"} {
		t.Run(name, func(t *testing.T) {
			if name == "peers" {
				daemon.NeedGPUs(t, 2)
			}
			job := daemon.Job(t, harness.CompileC(t, true, harness.Workload("driver", name+".c")))
			job.Hold = true
			job.Start().WaitLines(1)
			t.Log(job.Dump())
			job.Restore()
			if status := job.Finish(); status != 0 {
				t.Fatalf("it ends with status %d: %s", status, job.Stderr())
			}
		})
	}
	daemon.Empty()
}

// TestOrphanedMemory: what a program has of another one's memory is saved with that one. When that
// one has ended, the checkpoint is refused, and the program goes on.
func TestOrphanedMemory(t *testing.T) {
	_, err := harness.CRIU()
	harness.Need(t, "criu", err)
	daemon := harness.Start(t)
	job := daemon.Job(t, harness.CompileC(t, true, harness.Workload("driver", "orphan.c")))
	job.Hold = true
	job.Start().WaitLines(1)
	text, err := job.TryCli("--pre-dump", "--dir", job.Image, "--pid", fmt.Sprint(job.PID))
	if err == nil || !strings.Contains(text, "is shared by a program that has ended") {
		t.Errorf("%v: %s", err, text)
	}
	if status := job.Finish(); status != 0 {
		t.Errorf("it ends with status %d: %s", status, job.Stderr())
	}
	daemon.Empty()
}

// TestLostWorker: a program that rests does not know that its worker has ended. A checkpoint of it,
// which would have no GPU half, is refused and not taken for one of a program without a GPU.
func TestLostWorker(t *testing.T) {
	_, err := harness.CRIU()
	harness.Need(t, "criu", err)
	daemon := harness.Start(t)
	job := daemon.Job(t, harness.CompileC(t, true, harness.Workload("driver", "attributes.c")))
	job.Hold = true
	job.Start().WaitLines(1)
	job.PreDump()
	if err := syscall.Kill(int(daemon.Status().GetPrograms()[0].GetWorkerPid()), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	daemon.Eventually(
		"phosd knows that the worker has ended",
		func() bool { return len(daemon.Status().GetPrograms()) == 0 },
	)
	for _, verb := range []string{"--pre-dump", "--dump"} {
		text, err := job.TryCli(verb, "--dir", job.Image, "--pid", fmt.Sprint(job.PID))
		if err == nil || !strings.Contains(text, "has lost its worker") {
			t.Errorf("%s: %v: %s", verb, err, text)
		}
		t.Log(text)
	}
	if status := job.Finish(); status == 0 {
		t.Errorf("it does not notice: %s", job.Stderr())
	}
	job.Restore()
	if status := job.Finish(); status != 0 {
		t.Errorf("what was saved before ends with status %d: %s", status, job.Stderr())
	}
	daemon.Empty()
}
