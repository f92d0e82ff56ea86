package e2e

import (
	"testing"

	"github.com/phos-gpu/phos/tests/harness"
)

// TestCUDA13 runs cuBLAS and cuFFT of CUDA 13. CUDA13_LIBRARIES is a folder with them (pip download
// nvidia-cublas nvidia-cufft). The software GPU runs those of their kernels that have PTX: single
// precision products for capability 10.0, none for 9.0.
func TestCUDA13(t *testing.T) {
	folder, err := harness.Tool("CUDA13_LIBRARIES")
	harness.Need(t, "cuda13", err)
	for capability, product := range map[string]string{"9.0": "refused", "10.0": ""} {
		t.Run(capability, func(t *testing.T) {
			daemon := harness.Start(t, "--gpus=soft:1,cuda=13.0,cc="+capability)
			program := daemon.Program("python3", harness.Workload("cuda13", "libraries.py")).In(t)
			program.Env = append(program.Env, "PYTHONDONTWRITEBYTECODE=1", "LIBRARIES="+folder, "PRODUCT="+product)
			program.OK()
			daemon.Empty()
		})
	}
}
