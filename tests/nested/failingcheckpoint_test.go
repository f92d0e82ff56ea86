package nested

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/phos-gpu/phos/hijack/abi"
	"github.com/phos-gpu/phos/tests/harness"
)

// TestFailingDriverInCheckpoint saves and restores a program over a driver in which one call fails
// with out of memory: in turn each call that a checkpoint or a restore makes. The failure must be
// reported, and the next attempt must succeed. A failed restore must leave no process.
func TestFailingDriverInCheckpoint(t *testing.T) {
	_, err := harness.CRIU()
	harness.Need(t, "criu", err)
	program := harness.CompileC(t, true, harness.Workload("checkpoint", "count.c"))
	o := newFaultPlan(t)
	daemon := harness.StartOver(t, harness.StartAlone(t, "--gpus=soft:1,deterministic"), o.library)
	const steps = 12
	o.reset()
	plain := daemon.Job(t, program, fmt.Sprint(steps), "300000", "0")
	status := plain.Start().Finish()
	want := plain.Result()

	// After its work the program waits, so all further calls belong to the checkpoint.
	job := daemon.Job(t, program, fmt.Sprint(steps), "300000", "0")
	job.Hold = true
	job.Start()
	job.WaitLines(steps)
	o.reset()
	job.PreDump()
	for _, name := range memoryCalls(o) {
		t.Run("save/"+name, func(t *testing.T) {
			o.fail(name, 1, once, abi.OutOfMemory)
			text, err := job.TryCli("--pre-dump", "--dir", job.Image, "--pid", fmt.Sprint(job.PID))
			t.Logf("%d failed: %v: %s", o.failed(), err, text)
			if err != nil && !strings.Contains(text, abi.OutOfMemory.String()) {
				t.Errorf("the error does not name the cause: %s", text)
			}
			o.reset()
			if text, err := job.TryCli("--pre-dump", "--dir", job.Image, "--pid", fmt.Sprint(job.PID)); err != nil {
				t.Fatalf("the next checkpoint failed too: %s", text)
			}
		})
	}
	o.reset()
	job.Dump()
	o.reset()
	job.RestoreDetached()
	for _, name := range memoryCalls(o) {
		t.Run("restore/"+name, func(t *testing.T) {
			job.Kill()
			o.fail(name, 1, once, abi.OutOfMemory)
			text, err := job.TryCli("--restore", "--detach", "--dir", job.Image)
			t.Logf("%d failed: %v: %s", o.failed(), err, text)
			o.reset()
			if err == nil {
				job.Finish()
				if differences := job.Result().Differs(want); differences != "" {
					t.Errorf("the results differ: %s", differences)
				}
				if err := os.Remove(filepath.Join(filepath.Dir(job.Dir), "on")); err != nil { // hold it again
					t.Fatal(err)
				}
				job.RestoreDetached()
				return
			}
			if !strings.Contains(text, abi.OutOfMemory.String()) {
				t.Errorf("the error does not name the cause: %s", text)
			}
			daemon.Empty()
			job.RestoreDetached()
		})
	}
	job.Kill()
	o.reset()
	job.Restore()
	job.FinishLike(t, "restored", want, status)
	daemon.Empty()
}

// TestFailedGPU saves a program whose GPU fails permanently during the checkpoint, as real ones do.
// The checkpoint fails with the reason, the program gets an error, and the previous image can be
// restored.
func TestFailedGPU(t *testing.T) {
	_, err := harness.CRIU()
	harness.Need(t, "criu", err)
	program := harness.CompileC(t, true, harness.Workload("checkpoint", "count.c"))
	o := newFaultPlan(t)
	daemon := harness.StartOver(t, harness.StartAlone(t, "--gpus=soft:1,deterministic"), o.library)
	for _, code := range []abi.Result{abi.IllegalAddress, abi.ECCUncorrectable, abi.LaunchTimeout} {
		t.Run(code.String(), func(t *testing.T) {
			o.reset()
			plain := daemon.Job(t, program, "12", "10000", "0")
			status := plain.Start().Finish()
			want := plain.Result()
			job := daemon.Job(t, program, "12", "10000", "0")
			job.Hold = true
			job.Start()
			job.WaitLines(12)
			job.PreDump()
			o.fail("cuStreamSynchronize", 1, fromThenOn, code)
			text, err := job.TryCli("--pre-dump", "--dir", job.Image, "--pid", fmt.Sprint(job.PID))
			if err == nil || !strings.Contains(text, code.String()) {
				t.Errorf("checkpoint of a failed GPU: %v: %s", err, text)
			}
			job.Kill()
			o.reset()
			daemon.Empty()
			job.Restore()
			job.FinishLike(t, "restored", want, status)
		})
	}
	daemon.Empty()
}

// memoryCalls lists the calls since the last reset that allocate memory of any kind. Only these are
// likely to fail in a real driver.
func memoryCalls(o *faultPlan) []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(o.counts())), func(name string) bool {
		return !slices.ContainsFunc(
			[]string{"Alloc", "Create", "Map", "Load", "Reserve", "Register", "Launch"},
			func(part string) bool {
				return strings.Contains(name, part)
			},
		)
	})
}
