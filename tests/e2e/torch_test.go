package e2e

import (
	"testing"

	"github.com/phos-gpu/phos/tests/harness"
)

// TestTorch runs unmodified PyTorch if its libraries contain PTX. They have no machine code for
// capability 12.0, so cuBLAS uses PTX too.
func TestTorch(t *testing.T) {
	python, err := harness.Tool("TORCH_PYTHON")
	harness.Need(t, "torch", err)
	daemon := harness.Start(t, "--gpus=soft:1,cc=12.0")
	for _, name := range []string{"operators", "training", "machinery", "expandable"} {
		t.Run(name, func(t *testing.T) {
			program := daemon.Program(python, harness.Workload("torch", name+".py")).In(t)
			program.Env = append(program.Env, "PYTHONDONTWRITEBYTECODE=1")
			program.OK()
		})
	}
	daemon.Empty()
}

// TestTorchGroup runs NCCL in a process group of one.
func TestTorchGroup(t *testing.T) {
	python := harness.WithNCCL(t)
	daemon := harness.Start(t, "--gpus=soft:1,cc=9.0,cuda=13.0")
	program := daemon.Program(python, harness.Workload("torch", "group.py")).In(t)
	program.Env = append(program.Env, "PYTHONDONTWRITEBYTECODE=1")
	program.OK()
	daemon.Empty()
}

// TestTriton runs code that Triton compiles, directly and through torch.compile. Its LLVM supports
// capability 9.0, but not 12.0.
func TestTriton(t *testing.T) {
	python, err := harness.Tool("TORCH_PYTHON")
	harness.Need(t, "torch", err)
	harness.Need(t, "triton", harness.Triton(python))
	daemon := harness.Start(t, "--gpus=soft:1,cc=9.0")
	program := daemon.Program(python, harness.Workload("torch", "compiled.py")).In(t)
	program.Env = append(
		append(program.Env, "PYTHONDONTWRITEBYTECODE=1", "TORCHINDUCTOR_COMPILE_THREADS=1"),
		harness.TritonSettings(t.TempDir())...)
	program.OK()
	daemon.Empty()
}

// TestTorchAsks runs PyPI's PyTorch with all its libraries on blank GPUs: each call to the driver
// must be accepted. What comes out is not compared, because nothing is computed.
func TestTorchAsks(t *testing.T) {
	python, err := harness.Tool("TORCH_WHEEL_PYTHON")
	harness.Need(t, "torchwheel", err)
	harness.Need(t, "triton", harness.Triton(python))
	harness.BlankGPU(t)
	daemon := harness.Start(t, "--gpus=soft:2,cc=9.0,cuda=13.0,blank")
	for _, name := range []string{"asks", "ranks"} {
		t.Run(name, func(t *testing.T) {
			program := daemon.Program(python, harness.Workload("torch", name+".py")).In(t)
			program.Env = append(append(program.Env, "PYTHONDONTWRITEBYTECODE=1"), harness.TritonOwnAssembler(t.TempDir())...)
			program.OK()
		})
	}
	daemon.Empty()
}

// TestTorchWheel runs what works in PyPI's PyTorch for CUDA 13.0 without its machine code.
// TORCH_WHEEL_PYTHON is a Python that has it (pip install torch==2.11.0).
func TestTorchWheel(t *testing.T) {
	python, err := harness.Tool("TORCH_WHEEL_PYTHON")
	harness.Need(t, "torchwheel", err)
	harness.RealGPU(t, "machine code works, and this tests what works without it")
	daemon := harness.Start(t, "--gpus=soft:1,cc=9.0,cuda=13.0")
	program := daemon.Program(python, harness.Workload("torch", "wheel.py")).In(t)
	program.Env = append(append(program.Env, "PYTHONDONTWRITEBYTECODE=1"), harness.TritonSettings(t.TempDir())...)
	program.OK()
	daemon.Empty()
}
