package e2e

import (
	"strconv"
	"testing"

	"github.com/phos-gpu/phos/tests/harness"
)

// TestNothingAwaited: of the calls that PyTorch makes around a kernel, the program waits for none.
func TestNothingAwaited(t *testing.T) {
	daemon := harness.Start(t)
	program := harness.CompileC(t, true, harness.Workload("driver", "steps.c"))
	made, awaited := callsPerStep(daemon, 1000, program)
	t.Logf("%.1f calls a kernel", made)
	if made < 2 || awaited != 0 {
		t.Errorf("of %.1f calls a kernel, the program waits for %.3f", made, awaited)
	}
	daemon.Empty()
}

// TestTorchAwaits: a step of a model in PyTorch waits for its result, not for its kernels.
func TestTorchAwaits(t *testing.T) {
	const most = 2
	python, err := harness.Tool("TORCH_WHEEL_PYTHON")
	harness.Need(t, "torchwheel", err)
	harness.BlankGPU(t)
	daemon := harness.Start(t, "--gpus=soft:1,cc=9.0,cuda=13.0,blank")
	for _, model := range []string{"gpt2", "resnet50", "decode"} {
		made, awaited := callsPerStep(daemon, 20, python, "-B", harness.Workload("torch", "steps.py"), model)
		t.Logf("%s: of %.1f calls a step, the program waits for %.1f", model, made, awaited)
		if made < 10*most || awaited > most {
			t.Errorf("%s: of %.1f calls a step, the program waits for %.1f", model, made, awaited)
		}
	}
	daemon.Empty()
}

// callsPerStep runs a program for few steps, and for more: how many more calls it makes for each
// one more, and how many of them it waits for.
func callsPerStep(daemon *harness.Daemon, more int, path string, arguments ...string) (made, awaited float64) {
	const few = 5
	var calls [2]struct{ made, awaited uint64 }
	for i, steps := range []int{few, few + more} {
		program := daemon.Program(path, append(arguments[:len(arguments):len(arguments)], strconv.Itoa(steps))...)
		program.StartUntil("stepped")
		progress := daemon.Status().GetPrograms()[0].GetDescription().GetProgress()
		calls[i].made, calls[i].awaited = progress.GetCallsMade(), progress.GetCallsAwaited()
		_ = program.Process.Kill()
		_ = program.Wait() // by the signal
		daemon.Eventually("the program's end", func() bool { return len(daemon.Status().GetPrograms()) == 0 })
	}
	per := func(a, b uint64) float64 { return float64(b-a) / float64(more) }
	return per(calls[0].made, calls[1].made), per(calls[0].awaited, calls[1].awaited)
}
