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

// TestTorch saves a training by unmodified PyTorch while it runs, ends it, and brings it back from
// every generation.
func TestTorch(t *testing.T) {
	python := torch(t)
	daemon := start(t, forTorch)
	savedInBetween(
		t,
		20,
		func(rest string) *harness.Job { return script(t, daemon, python, "with_torch.py", "20", rest) },
	)
	daemon.Empty()
}

// forTorch is a software GPU of a capability that PyTorch's libraries do not know, so that they
// bring PTX to it.
const forTorch = "--gpus=soft:1,deterministic,cc=12.0"

// torch is a Python that has PyTorch.
func torch(t *testing.T) string {
	t.Helper()
	python, err := harness.Tool("TORCH_PYTHON")
	harness.Need(t, "torch", err)
	return python
}

// script prepares a program of PyTorch's.
func script(t *testing.T, daemon *harness.Daemon, python, name string, arguments ...string) *harness.Job {
	t.Helper()
	job := daemon.Job(t, python, append([]string{harness.Workload("checkpoint", name)}, arguments...)...)
	job.Prepare = func(command *exec.Cmd) { command.Env = append(command.Env, "PYTHONDONTWRITEBYTECODE=1") }
	return job
}

// savedInBetween saves a program while it does its steps, the last time for good, and brings it
// back from every generation.
func savedInBetween(t *testing.T, steps int, job func(rest string) *harness.Job) {
	t.Helper()
	want, status := undisturbed(job("0"))
	if !strings.Contains(want["out"], "\nok ") || status != 7 {
		t.Fatalf("undisturbed, it ends with status %d: %s%s", status, want["out"], want["err"])
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
	same(t, saved, want, status)
}

// TestTorchModels saves, kills and restores at random moments what the steps of PyTorch are
// measured with: a training of GPT-2's kind, one of a ResNet-50, and a decoding loop.
// PHOS_TORCH_SAVED_SCALE is how large they are.
func TestTorchModels(t *testing.T) {
	python := torch(t)
	seed := setting(t, "PHOS_SEED", uint64(time.Now().UnixNano())%1e9)
	t.Logf("PHOS_SEED=%d", seed)
	daemon := start(t, forTorch)
	for i, kind := range []string{"gpt2", "resnet50", "decode"} {
		t.Run(kind, func(t *testing.T) {
			const steps = 12
			job := func(rest string) *harness.Job {
				return script(
					t,
					daemon,
					python,
					"with_models.py",
					kind,
					fmt.Sprint(steps),
					rest,
					cmp.Or(os.Getenv("PHOS_TORCH_SAVED_SCALE"), "0.02"),
				)
			}
			want, status := undisturbed(job("0"))
			if !strings.Contains(want["out"], "\nok ") || status != 7 {
				t.Fatalf("undisturbed, it ends with status %d: %s%s", status, want["out"], want["err"])
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
