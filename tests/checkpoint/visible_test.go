package checkpoint

import (
	"os/exec"
	"slices"
	"testing"

	"github.com/phos-gpu/phos/tests/harness"
)

// TestVisibleDevices saves and restores a program that sees the second of two GPUs as its only one.
// It must get that GPU again and, on a machine with one GPU, that one.
func TestVisibleDevices(t *testing.T) {
	_, err := harness.CRIU()
	harness.Need(t, "criu", err)
	two := harness.Start(t, "--gpus=soft:2,deterministic")
	two.NeedGPUs(t, 2)
	one := harness.Start(t, "--gpus=soft:1,deterministic")
	program := harness.CompileC(t, true, harness.Workload("checkpoint", "count.c"))
	want, status := runUndisturbed(two.Job(t, program, "40", "20000", "0"))
	job := two.Job(t, program, "40", "20000", "1000")
	job.Hold = true
	job.Prepare = func(c *exec.Cmd) { c.Env = append(c.Env, "CUDA_VISIBLE_DEVICES=1") }
	job.Start()
	on := func(daemon *harness.Daemon, want uint32) {
		t.Helper()
		var got []uint32
		for _, p := range daemon.Status().GetPrograms() {
			for _, memory := range p.GetDescription().GetProgress().GetMemory() {
				if memory.GetBytes() > 0 {
					got = append(got, memory.GetGpu())
				}
			}
		}
		if !slices.Equal(got, []uint32{want}) {
			t.Errorf("the program has memory on GPUs %v, want %d", got, want)
		}
	}
	job.WaitLines(5)
	on(two, 1)
	job.Dump()
	job.RestoreDetached()
	job.WaitLines(10)
	on(two, 1)
	job.PreDump()
	// The nested phosd gives out only the addresses of the GPUs that it has.
	if !harness.Nested() {
		job.Dump()
		job.Move(one)
		job.Restore()
		job.WaitLines(20)
		on(one, 0)
		job.Dump()
		job.Move(two)
		job.Restore()
		on(two, 0)
	} else {
		job.Dump()
		job.Restore()
	}
	if got := job.Finish(); got != status {
		t.Errorf("exit status %d, want %d", got, status)
	}
	if differences := job.Result().Differs(want); differences != "" {
		t.Errorf("the results differ: %s", differences)
	}
	two.Empty()
	one.Empty()
}
