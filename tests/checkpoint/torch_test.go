package checkpoint

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/phos-gpu/phos/tests/harness"
)

// TestTorch saves and ends a training by unmodified PyTorch while it runs, and restores it from
// every generation.
func TestTorch(t *testing.T) {
	python := torch(t)
	daemon := start(t, torchGPU)
	checkpointBetweenSteps(
		t,
		20,
		func(pause string) *harness.Job { return script(t, daemon, python, "with_torch.py", "20", pause) },
	)
	daemon.Empty()
}

// TestTorchWheel saves a training by PyPI's PyTorch and its libraries on a blank GPU.
func TestTorchWheel(t *testing.T) {
	python, err := harness.Tool("TORCH_WHEEL_PYTHON")
	harness.Need(t, "torchwheel", err)
	harness.BlankGPU(t)
	daemon := start(t, "--gpus=soft:1,cc=9.0,cuda=13.0,blank")
	checkpointBetweenSteps(
		t,
		12,
		func(pause string) *harness.Job { return script(t, daemon, python, "with_wheel.py", "12", pause) },
	)
	daemon.Empty()
}

// torchGPU is a software GPU whose capability PyTorch's libraries do not have machine code for, so
// they load PTX.
const torchGPU = "--gpus=soft:1,deterministic,cc=12.0"

// torch returns a Python that has PyTorch.
func torch(t *testing.T) string {
	t.Helper()
	python, err := harness.Tool("TORCH_PYTHON")
	harness.Need(t, "torch", err)
	return python
}

// script prepares a PyTorch program.
func script(t *testing.T, daemon *harness.Daemon, python, name string, arguments ...string) *harness.Job {
	t.Helper()
	job := daemon.Job(t, python, append([]string{harness.Workload("checkpoint", name)}, arguments...)...)
	job.Prepare = func(command *exec.Cmd) { command.Env = append(command.Env, "PYTHONDONTWRITEBYTECODE=1") }
	return job
}

// checkpointBetweenSteps saves a program several times between its steps, ends it with the last
// checkpoint, and restores every generation.
func checkpointBetweenSteps(t *testing.T, steps int, job func(pause string) *harness.Job) {
	t.Helper()
	want, status := runUndisturbed(job("0"))
	if !strings.Contains(want["out"], "\nok ") || status != 7 {
		t.Fatalf("the undisturbed run exited with status %d: %s%s", status, want["out"], want["err"])
	}
	saved := job("0.1")
	saved.Hold = true
	saved.Start()
	for n := range generations - 1 {
		saved.WaitLines(1 + n*steps/4 + steps/8)
		t.Log(saved.PreDump())
	}
	saved.WaitLines(steps * 3 / 4)
	t.Log(saved.Dump())
	compareGenerations(t, saved, want, status)
}

// TestTorchModels saves, kills and restores the programs of the step benchmark at random times: a
// training of GPT-2's kind, one of a ResNet-50, and a decoding loop. PHOS_TORCH_SAVED_SCALE sets
// their size.
func TestTorchModels(t *testing.T) {
	python := torch(t)
	seed := harness.Setting(t, "PHOS_SEED", uint64(time.Now().UnixNano())%1e9)
	t.Logf("PHOS_SEED=%d", seed)
	daemon := start(t, torchGPU)
	for i, kind := range []string{"gpt2", "resnet50", "decode"} {
		t.Run(kind, func(t *testing.T) {
			const steps = 12
			job := func(pause string) *harness.Job {
				return script(
					t,
					daemon,
					python,
					"with_models.py",
					kind,
					fmt.Sprint(steps),
					pause,
					cmp.Or(os.Getenv("PHOS_TORCH_SAVED_SCALE"), "0.02"),
				)
			}
			want, status := runUndisturbed(job("0"))
			if !strings.Contains(want["out"], "\nok ") || status != 7 {
				t.Fatalf("the undisturbed run exited with status %d: %s%s", status, want["out"], want["err"])
			}
			r := &round{
				Rand: rand.New(
					rand.NewPCG(seed, uint64(i)),
				), t: t, daemon: daemon, job: job("0.05"), want: want, status: status,
				steps: steps, begin: 1,
			}
			r.job.Hold = true
			r.play()
		})
	}
	daemon.Empty()
}
