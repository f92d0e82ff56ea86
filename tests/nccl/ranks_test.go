package nccl

import (
	"fmt"
	"math/rand/v2"
	"os/exec"
	"testing"
	"time"

	"github.com/phos-gpu/phos/tests/harness"
	"github.com/phos-gpu/phos/tests/harness/rounds"
)

// gpus are GPUs whose code NCCL brings as PTX.
const gpus = "--gpus=soft:4,cc=9.0,cuda=12.4"

// start starts phosd with several GPUs.
func start(t *testing.T) *harness.Daemon {
	t.Helper()
	_, err := harness.CRIU()
	harness.Need(t, "criu", err)
	return harness.Start(t, gpus)
}

// ranks prepares a job of so many ranks.
func ranks(t *testing.T, daemon *harness.Daemon, program string, steps, pause, count int, variables ...string) *harness.Job {
	t.Helper()
	job := daemon.Job(t, program, fmt.Sprint(steps), fmt.Sprint(pause), fmt.Sprint(count))
	job.Prepare = func(command *exec.Cmd) {
		command.Env = append(append(command.Env, harness.NCCLVariables()...), variables...)
	}
	return job
}

// transports are the ways between the ranks of one host that NCCL has, by what chooses them. A rank
// that believes itself on another host has only sockets.
var transports = []struct {
	name      string
	variables []string
}{
	{"chosen by NCCL", nil},
	{"sockets", []string{"NCCL_P2P_DISABLE=1", "NCCL_SHM_DISABLE=1"}},
}

// TestTransports runs each transport undisturbed; the program compares every result.
func TestTransports(t *testing.T) {
	daemon := start(t)
	program := harness.CompileNCCL(t, harness.Workload("nccl", "ranks.c"))
	for _, each := range transports {
		t.Run(each.name, func(t *testing.T) {
			undisturbed(t, ranks(t, daemon, program, 10, 0, 2, each.variables...))
		})
	}
	t.Run("4 ranks", func(t *testing.T) { undisturbed(t, ranks(t, daemon, program, 3, 0, 4)) })
	daemon.Empty()
}

// undisturbed runs a job and returns what it has written.
func undisturbed(t *testing.T, job *harness.Job) harness.Result {
	t.Helper()
	if status := job.Start().Finish(); status != 0 {
		t.Fatalf("status %d: %v", status, job.Result())
	}
	return job.Result()
}

// TestSaved saves ranks at random moments, while they run and for good, and restores what was
// saved: no step is lost, repeated or wrong.
func TestSaved(t *testing.T) {
	daemon := start(t)
	program := harness.CompileNCCL(t, harness.Workload("nccl", "ranks.c"))
	for _, each := range transports {
		t.Run(each.name, func(t *testing.T) {
			count := rounds.Of(2, 60)
			steps := 20 * (count + 1)
			want := undisturbed(t, ranks(t, daemon, program, steps, 0, 2, each.variables...))
			job := ranks(t, daemon, program, steps, 5, 2, each.variables...).Start()
			for n := range count {
				job.WaitLines(n*10 + 5)
				time.Sleep(rand.N(100 * time.Millisecond))
				if n%2 == 0 {
					t.Log(job.PreDump())
					continue
				}
				t.Log(job.Dump())
				job.RestoreDetached()
			}
			job.WaitLines(steps / 2)
			job.Kill()
			job.Restore()
			job.FinishLike(t, "the last image", want, 0)
		})
	}
	daemon.Empty()
}
