package checkpoint

import (
	"fmt"
	"strings"
	"syscall"
	"testing"

	"github.com/phos-gpu/phos/tests/harness"
)

// TestCallsSurvive saves programs that use one group of calls each. The objects that the calls made
// before the checkpoint must exist after the restore.
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
				t.Fatalf("exited with status %d: %s", status, job.Stderr())
			}
		})
	}
	daemon.Empty()
}

// TestOrphanedMemory: imported memory is saved with its exporter. After the exporter has exited,
// the checkpoint is refused and the program continues.
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
		t.Errorf("exited with status %d: %s", status, job.Stderr())
	}
	daemon.Empty()
}

// TestLostWorker: an idle program does not notice that its worker has exited. Its checkpoint would
// lack the GPU half, so it must be refused rather than taken as one of a program without a GPU.
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
		"phosd has noticed the worker's exit",
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
		t.Errorf("the program did not notice the exit of its worker: %s", job.Stderr())
	}
	job.Restore()
	if status := job.Finish(); status != 0 {
		t.Errorf("the earlier checkpoint exited with status %d: %s", status, job.Stderr())
	}
	daemon.Empty()
}
