package e2e

import (
	"strings"
	"testing"

	"github.com/phos-gpu/phos/tests/harness"
)

// TestMachineCodeOnly runs a program without PTX. The error must give the reason and the remedy.
func TestMachineCodeOnly(t *testing.T) {
	daemon := harness.Start(t)
	program := daemon.Program(
		harness.Compile(t, harness.CUDA, "-gencode", "arch=compute_75,code=sm_75", harness.Workload("cuda", "scan.cu")),
	)
	if err := program.Run(); err == nil {
		t.Error("the program succeeded, want failure")
	}
	for _, part := range []string{"machine code for sm_75 without PTX", "needs a real GPU", "code=compute_"} {
		if !strings.Contains(program.Output.String(), part) {
			t.Errorf("the error lacks %q: %s", part, program.Output.String())
		}
	}
	daemon.Empty()
}
