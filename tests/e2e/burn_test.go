package e2e

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/phos-gpu/phos/tests/harness"
)

// TestGPUBurn runs the program of a cluster's GPU burn on two GPUs: what they compute is right.
func TestGPUBurn(t *testing.T) {
	python, err := exec.LookPath("python3")
	harness.Need(t, "python", err)
	daemon := harness.Start(t, "--gpus=soft:2")
	program := daemon.Program(python, harness.Path("cluster/clusterfudge/burn.py"), "1").In(t)
	if err := program.Run(); err != nil {
		t.Fatalf("%v\n%s", err, harness.Tail(program.Output.String()))
	}
	said := program.Output.String()
	for _, gpu := range []string{"GPU 0: ", "GPU 1: "} {
		_, line, _ := strings.Cut(said, gpu)
		if !strings.Contains(strings.SplitN(line, "\n", 2)[0], " launches, 0 wrong results") {
			t.Errorf("it said:\n%s", said)
		}
	}
	daemon.Empty()
}
