package e2e

import (
	"testing"

	"github.com/phos-gpu/phos/tests/lab"
)

// TestTorch runs unmodified PyTorch, where there is one whose libraries bring PTX. At capability 12.0, which they do not know,
// cuBLAS takes PTX too.
func TestTorch(t *testing.T) {
	python, err := lab.Tool("TORCH_PYTHON")
	lab.Need(t, "torch", err)
	daemon := lab.Start(t, "--gpus=soft:1,cc=12.0")
	for _, name := range []string{"operators", "training", "machinery", "expandable"} {
		t.Run(name, func(t *testing.T) {
			program := daemon.Program(python, lab.Workload("torch", name+".py")).In(t)
			program.Env = append(program.Env, "PYTHONDONTWRITEBYTECODE=1")
			program.OK()
		})
	}
	daemon.Empty()
}
