package checkpoint

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/phos-gpu/phos/tests/harness"
)

// TestBusyPrograms takes checkpoints while programs are in different states: GPU work runs, calls
// are in flight, or the program is idle.
func TestBusyPrograms(t *testing.T) {
	daemon := start(t)
	program := harness.CompileC(t, true, harness.Workload("checkpoint", "states.c"))
	for _, test := range []struct {
		which string
		// busy is how the error describes a program that cannot be saved within a short deadline;
		// empty if it can be saved at once.
		busy string
	}{
		{"kernel", "did not become idle"},
		{"wait", "did not become idle"},
		{"callback", "did not become idle"},
		{"capture", "captur"},
		{"asleep", ""},
	} {
		t.Run(test.which, func(t *testing.T) {
			plain := daemon.Job(t, program, test.which)
			release(t, plain)
			want, status := runUndisturbed(plain)
			job := daemon.Job(t, program, test.which)
			job.Hold = true
			job.Start()
			job.WaitLine("now")
			if test.busy != "" {
				text, err := job.TryCli("--pre-dump", "--idle-time", "50ms", "--dir", job.Image, "--pid", fmt.Sprint(job.PID))
				if err == nil || !strings.Contains(text, test.busy) {
					t.Errorf("with a short deadline: %v: %s", err, text)
				}
				if _, err := os.Stat(job.Image); err == nil {
					t.Error("the failed checkpoint left a directory behind")
				}
			}
			if test.busy != "" {
				// The program becomes idle while the checkpoint waits for it.
				time.AfterFunc(300*time.Millisecond, func() { release(t, job) })
			}
			t.Log(job.PreDump("--idle-time", "5m")) // a kernel takes long on a slow machine
			release(t, job)
			job.Kill()
			job.Restore()
			job.FinishLike(t, "restored", want, status)
		})
	}
	daemon.Empty()
}

// TestRegistering saves a program again and again that replaces private memory by memory that
// kernels reach. Meanwhile it has a userfaultfd open, most of the time, which CRIU cannot save.
func TestRegistering(t *testing.T) {
	daemon := start(t)
	program := harness.CompileC(t, true, harness.Workload("checkpoint", "states.c"))
	plain := daemon.Job(t, program, "register")
	release(t, plain)
	want, status := runUndisturbed(plain)
	job := daemon.Job(t, program, "register")
	job.Hold = true
	job.Start()
	job.WaitLine("now")
	for range 3 {
		t.Log(job.PreDump())
	}
	release(t, job)
	job.Kill()
	job.Restore()
	job.FinishLike(t, "restored", want, status)
	daemon.Empty()
}

// release lets a program leave its state.
func release(t *testing.T, job *harness.Job) {
	if err := os.WriteFile(filepath.Join(job.Dir, "enough"), nil, 0o600); err != nil {
		t.Error(err)
	}
}

// TestEndlessCapture tries to save a program inside a capture that does not end. Afterwards the
// program ends the capture.
func TestEndlessCapture(t *testing.T) {
	daemon := start(t)
	program := harness.CompileC(t, true, harness.Workload("checkpoint", "states.c"))
	job := daemon.Job(t, program, "capture").Start()
	job.WaitLine("now")
	for _, verb := range []string{"--pre-dump", "--dump"} {
		text, err := job.TryCli(verb, "--idle-time", "300ms", "--dir", job.Image, "--pid", fmt.Sprint(job.PID))
		if err == nil || !strings.Contains(text, "captur") {
			t.Errorf("%s inside a capture: %v: %s", verb, err, text)
		}
	}
	release(t, job)
	if status := job.Finish(); status != 7 || job.Lines() != 23 {
		t.Errorf("exited with status %d after %d lines: %s", status, job.Lines(), job.Stderr())
	}
	daemon.Empty()
}

// TestJustStarting saves programs while they initialize the GPU.
func TestJustStarting(t *testing.T) {
	daemon := start(t)
	program := harness.CompileC(t, true, harness.Workload("checkpoint", "count.c"))
	want, status := runUndisturbed(daemon.Job(t, program, "40", "5000", "0"))
	for delay := time.Duration(0); delay < 30*time.Millisecond; delay += 3 * time.Millisecond {
		job := daemon.Job(t, program, "40", "5000", "1000")
		job.Hold = true
		job.Start()
		time.Sleep(delay)
		job.PreDump()
		job.Kill()
		job.Restore()
		got := job.Finish()
		if differences := job.Result().Differs(want); differences != "" || got != status {
			t.Fatalf("saved after %v: exited with status %d: %s: %s", delay, got, differences, job.Stderr())
		}
	}
	daemon.Empty()
}

// TestConcurrentCheckpoints repeatedly saves several programs at the same time, each into its own
// directory.
func TestConcurrentCheckpoints(t *testing.T) {
	daemon := start(t)
	program := harness.CompileC(t, true, harness.Workload("checkpoint", "count.c"))
	want, status := runUndisturbed(daemon.Job(t, program, "100", "10000", "0"))
	var jobs [3]*harness.Job
	for i := range jobs {
		jobs[i] = daemon.Job(t, program, "100", "10000", "10000")
		jobs[i].Hold = true
		jobs[i].Start()
	}
	var all sync.WaitGroup
	for _, job := range jobs {
		job.WaitLines(3)
		all.Go(func() {
			for range generations {
				if text, err := job.TryCli("--pre-dump", "--dir", job.Image, "--pid", fmt.Sprint(job.PID)); err != nil {
					t.Errorf("%v: %s", err, text)
				}
			}
		})
	}
	all.Wait()
	if t.Failed() {
		return
	}
	for _, job := range jobs {
		job.Kill()
	}
	for _, job := range jobs {
		job.Restore()
	}
	for _, job := range jobs {
		job.FinishLike(t, "restored", want, status)
	}
	daemon.Empty()
}
