package e2e

import (
	"errors"
	"os/exec"
	"path/filepath"
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

// TestTriton runs what Triton compiles, for itself and for torch.compile. It would make machine code; for a software GPU its last step is
// passed over. Its LLVM knows capability 9.0 and not 12.0.
func TestTriton(t *testing.T) {
	python, err := lab.Tool("TORCH_PYTHON")
	lab.Need(t, "torch", err)
	if exec.Command(python, "-c", "import triton").Run() != nil {
		err = errors.New(python + " has no triton")
	}
	lab.Need(t, "triton", err)
	daemon := lab.Start(t, "--gpus=soft:1,cc=9.0")
	program := daemon.Program(python, lab.Workload("torch", "compiled.py")).In(t)
	program.Env = append(program.Env, "PYTHONDONTWRITEBYTECODE=1",
		"TRITON_LIBCUDA_PATH="+filepath.Join(lab.Bin(), "lib"), "TRITON_CACHE_DIR="+t.TempDir(), "TORCHINDUCTOR_CACHE_DIR="+t.TempDir(),
		"TORCHINDUCTOR_COMPILE_THREADS=1", "CC=gcc")
	if library, real := lab.Driver(); !real || library != "" {
		program.Env = append(program.Env, "TRITON_PTXAS_PATH="+lab.Path("scripts", "ptxas-for-triton.sh"))
	}
	program.OK()
	daemon.Empty()
}

// TestTorchWheel runs what PyTorch of PyPI, made for CUDA 13.0, does without its machine code: TORCH_WHEEL_PYTHON is a Python that has
// it (pip install torch==2.11.0).
func TestTorchWheel(t *testing.T) {
	python, err := lab.Tool("TORCH_WHEEL_PYTHON")
	lab.Need(t, "torchwheel", err)
	daemon := lab.Start(t, "--gpus=soft:1,cc=9.0,cuda=13.0")
	program := daemon.Program(python, lab.Workload("torch", "wheel.py")).In(t)
	program.Env = append(program.Env, "PYTHONDONTWRITEBYTECODE=1", "TRITON_PTXAS_PATH="+lab.Path("scripts", "ptxas-for-triton.sh"),
		"TRITON_LIBCUDA_PATH="+filepath.Join(lab.Bin(), "lib"), "TRITON_CACHE_DIR="+t.TempDir(), "CC=gcc")
	program.OK()
	daemon.Empty()
}
