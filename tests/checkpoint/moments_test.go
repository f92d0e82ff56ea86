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

// TestHardMoments saves programs at moments at which they are busy with the GPU, or with nothing at
// all.
func TestHardMoments(t *testing.T) {
	daemon := start(t)
	program := harness.CompileC(t, true, harness.Workload("checkpoint", "moments.c"))
	for _, test := range []struct {
		which string
		// busy is what the program is called that may not take its time; empty: it can be saved at once.
		busy string
	}{
		{"kernel", "did not come to rest"},
		{"wait", "did not come to rest"},
		{"callback", "did not come to rest"},
		{"capture", "captur"},
		{"asleep", ""},
	} {
		t.Run(test.which, func(t *testing.T) {
			plain := daemon.Job(t, program, test.which)
			enough(t, plain)
			want, status := undisturbed(plain)
			job := daemon.Job(t, program, test.which)
			job.Hold = true
			job.Start()
			job.WaitLine("now")
			if test.busy != "" {
				text, err := job.TryCli("--pre-dump", "--deadline", "50ms", "--dir", job.Image, "--pid", fmt.Sprint(job.PID))
				if err == nil || !strings.Contains(text, test.busy) {
					t.Errorf("with a short deadline: %v: %s", err, text)
				}
				if _, err := os.Stat(job.Image); err == nil {
					t.Error("a checkpoint that failed has left a directory")
				}
			}
			if test.busy != "" {
				// The program comes to rest while the checkpoint waits for it.
				time.AfterFunc(300*time.Millisecond, func() { enough(t, job) })
			}
			t.Log(job.PreDump("--deadline", "5m")) // a slow machine takes long for a kernel
			enough(t, job)
			job.Kill()
			job.Restore()
			job.FinishLike(t, "restored", want, status)
		})
	}
	daemon.Empty()
}

// enough lets a program end its moment.
func enough(t *testing.T, job *harness.Job) {
	if err := os.WriteFile(filepath.Join(job.Dir, "enough"), nil, 0o600); err != nil {
		t.Error(err)
	}
}

// TestEndlessCapture tries to save a program inside a capture that does not end, and lets the
// program end it afterwards.
func TestEndlessCapture(t *testing.T) {
	daemon := start(t)
	program := harness.CompileC(t, true, harness.Workload("checkpoint", "moments.c"))
	job := daemon.Job(t, program, "capture").Start()
	job.WaitLine("now")
	for _, verb := range []string{"--pre-dump", "--dump"} {
		text, err := job.TryCli(verb, "--deadline", "300ms", "--dir", job.Image, "--pid", fmt.Sprint(job.PID))
		if err == nil || !strings.Contains(text, "captur") {
			t.Errorf("%s inside a capture: %v: %s", verb, err, text)
		}
	}
	enough(t, job)
	if status := job.Finish(); status != 7 || job.Lines() != 23 {
		t.Errorf("it ends with status %d after %d lines: %s", status, job.Lines(), job.Stderr())
	}
	daemon.Empty()
}

// TestJustStarting saves programs while they get hold of the GPU.
func TestJustStarting(t *testing.T) {
	daemon := start(t)
	program := harness.CompileC(t, true, harness.Workload("checkpoint", "count.c"))
	want, status := undisturbed(daemon.Job(t, program, "40", "5000", "0"))
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
			t.Fatalf("saved after %v it ends with status %d: %s: %s", delay, got, differences, job.Stderr())
		}
	}
	daemon.Empty()
}

// TestTogether saves several programs at the same time, each into its own directory, again and
// again.
func TestTogether(t *testing.T) {
	daemon := start(t)
	program := harness.CompileC(t, true, harness.Workload("checkpoint", "count.c"))
	want, status := undisturbed(daemon.Job(t, program, "100", "10000", "0"))
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
