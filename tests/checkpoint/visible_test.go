package checkpoint

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
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
		hasMemoryOn(t, daemon, want)
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

// hasMemoryOn checks on which GPUs the programs of a daemon have memory, each program one.
func hasMemoryOn(t *testing.T, daemon *harness.Daemon, want ...uint32) {
	t.Helper()
	var got []uint32
	for _, p := range daemon.Status().GetPrograms() {
		for _, memory := range p.GetDescription().GetProgress().GetMemory() {
			if memory.GetBytes() > 0 {
				got = append(got, memory.GetGpu())
			}
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("the programs have memory on GPUs %v, want %v", got, want)
	}
}

// TestChosenGPUs restores a tree of processes that use the first of three GPUs onto others.
func TestChosenGPUs(t *testing.T) {
	daemon := start(t, "--gpus=soft:3,deterministic")
	daemon.NeedGPUs(t, 3)
	program := harness.CompileC(t, true, harness.Workload("checkpoint", "family.c"))
	want, status := runUndisturbed(daemon.Job(t, program, "100", "0"))
	job := daemon.Job(t, program, "100", "20000")
	job.Hold = true
	job.Start().WaitLines(5)
	hasMemoryOn(t, daemon, 0, 0, 0, 0)
	job.Dump()
	for list, says := range map[string]string{
		"3":   "phosd serves no GPU 3; it serves GPUs 0 to 2",
		"1,1": "--gpus 1,1: GPU 1 is named twice",
		"x":   `--gpus takes numbers or UUIDs (GPU-...), separated by commas, not "x"`,
	} {
		for _, command := range [][]string{
			{"--restore", "--dir", job.Image}, {"--pre-restore", "--dir", job.Image}, {"image", "check", job.Image},
		} {
			said, err := daemon.Command(append(command, "--gpus", list)...).CombinedOutput()
			if err == nil || !strings.Contains(string(said), says) {
				t.Errorf("%v --gpus %s: %v, want %q:\n%s", command, list, err, says, said)
			}
		}
	}
	job.RestoreDetached("--gpus", "2")
	job.WaitLines(10)
	hasMemoryOn(t, daemon, 2, 2, 2, 2)
	job.Dump()
	job.Cli("image", "check", "--gpus", "1", job.Image)
	job.Cli("--pre-restore", "--dir", job.Image, "--gpus", "1")
	if said := job.Cli("--pre-restore", "--dir", job.Image, "--gpus", "1", "--cancel"); !strings.Contains(said, "no longer") {
		t.Errorf("cancelled: %s", said)
	}
	job.Cli("--pre-restore", "--dir", job.Image, "--gpus", "1")
	job.RestoreDetached("--gpus", "0")
	job.WaitLines(15)
	hasMemoryOn(t, daemon, 0, 0, 0, 0)
	job.Dump()
	job.Cli("--pre-restore", "--dir", job.Image, "--gpus", "1")
	job.Restore("--gpus", "1")
	job.WaitLines(20)
	hasMemoryOn(t, daemon, 1, 1, 1, 1)
	job.FinishLike(t, "on other GPUs", want, status)
}

// needSameAddresses skips a test of a program with variables in a module, whose addresses it may
// remember, over a nested phosd: its driver has other addresses for each GPU.
func needSameAddresses(t *testing.T) {
	t.Helper()
	if harness.Nested() {
		t.Skip("the driver puts variables of modules elsewhere on another GPU")
	}
}

// TestLaterPrograms: the numbers that a tree knows its GPUs by mean the GPUs that it was restored
// onto, also for programs that it starts later, after further restores, and after a restart of
// phosd.
func TestLaterPrograms(t *testing.T) {
	needSameAddresses(t)
	for name, visible := range map[string]string{"all": "", "chosen": "CUDA_VISIBLE_DEVICES=0"} {
		t.Run(name, func(t *testing.T) {
			daemon := start(t, "--gpus=soft:3,deterministic")
			daemon.NeedGPUs(t, 3)
			program := harness.CompileC(t, true, harness.Workload("checkpoint", "count.c"))
			job := daemon.Job(t, "/bin/sh", "-c", "for run in 1 2 3 4; do "+program+" 30 2000 10000; done")
			job.Prepare = func(c *exec.Cmd) { c.Env = append(c.Env, visible) }
			job.Start().WaitLines(5)
			hasMemoryOn(t, daemon, 0)
			job.Dump()
			job.RestoreDetached("--gpus", "2")
			job.WaitLines(35)
			hasMemoryOn(t, daemon, 2)
			job.Dump()
			job.RestoreDetached("--gpus", "1")
			daemon.Relaunch()
			job.WaitLines(65)
			hasMemoryOn(t, daemon, 1)
			job.Dump()
			job.RestoreDetached("--gpus", "0")
			job.WaitLines(95)
			hasMemoryOn(t, daemon, 0)
			job.WaitGone()
		})
	}
}

// TestChosenBeforeFirstUse: a program that has used no GPU yet gets the chosen one as its first.
func TestChosenBeforeFirstUse(t *testing.T) {
	daemon := start(t, "--gpus=soft:3,deterministic")
	daemon.NeedGPUs(t, 3)
	program := harness.CompileC(t, true, harness.Workload("checkpoint", "count.c"))
	gate := filepath.Join(t.TempDir(), "go")
	job := daemon.Job(t, "/bin/sh", "-c", "echo waits; until [ -e "+gate+" ]; do sleep 0.02; done; "+program+" 30 2000 10000")
	job.Start().WaitLines(1)
	job.Dump()
	job.RestoreDetached("--gpus", "2")
	if err := os.WriteFile(gate, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	job.WaitLines(5)
	hasMemoryOn(t, daemon, 2)
	job.WaitGone()
}
