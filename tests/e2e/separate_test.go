package e2e

import (
	"testing"

	"github.com/phos-gpu/phos/tests/harness"
)

// TestSeparateCompilation runs a program whose device code is in two files: as PTX only, and with
// machine code that nvcc has linked in addition to the PTX of the parts.
func TestSeparateCompilation(t *testing.T) {
	daemon := harness.Start(t)
	for name, target := range map[string][]string{
		"ptx":             {"-arch=compute_75"},
		"ptx and machine": {"-gencode=arch=compute_75,code=compute_75", "-gencode=arch=compute_75,code=sm_75"},
	} {
		t.Run(name, func(t *testing.T) {
			arguments := append(
				[]string{
					"-O2",
					"-std=c++17",
					"-rdc=true",
					harness.Workload("cuda", "separate", "main.cu"),
					harness.Workload("cuda", "separate", "twist.cu"),
				},
				target...)
			daemon.Program(harness.Compile(t, harness.CUDA, arguments...)).In(t).OK()
		})
	}
}
