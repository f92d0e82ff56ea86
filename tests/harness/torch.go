package harness

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// WithNCCL returns a Python whose PyTorch has NCCL. Debian's build takes too long on a software
// GPU. PyPI's PyTorch only contains machine code, which a group of one does not need. So software
// GPUs use TORCH_WHEEL_PYTHON.
func WithNCCL(t testing.TB) string {
	t.Helper()
	variable := "TORCH_PYTHON"
	if library, real := Driver(); !real || library != "" {
		variable = "TORCH_WHEEL_PYTHON"
	}
	python, err := Tool(variable)
	Need(t, "torch", err)
	if exec.Command(python, "-c", "import torch.distributed as d; assert d.is_nccl_available()").Run() != nil {
		err = errors.New("the PyTorch of " + python + " has no NCCL")
	}
	Need(t, "nccl", err)
	return python
}

// Triton returns nil if a Python has Triton, and a C compiler and Python's headers, which Triton
// needs.
func Triton(python string) error {
	const ask = `import importlib.util as u, os, shutil, sysconfig as s
if not u.find_spec("triton"): raise SystemExit("it has no triton")
if not any(map(shutil.which, filter(None, (os.environ.get("CC"), "gcc", "clang")))): raise SystemExit("triton needs a C compiler, and there is none")
scheme = s.get_default_scheme().replace("posix_local", "posix_prefix")
if not os.path.exists(os.path.join(s.get_path("include", scheme), "Python.h")): raise SystemExit("triton needs this Python's headers, and they are not installed")`
	if output, err := exec.Command(python, "-c", ask).CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %s", python, strings.TrimSpace(string(output)))
	}
	return nil
}

// TritonSettings returns the environment for a program that uses Triton: its own caches, and phos'
// libraries to link with.
func TritonSettings(caches string) []string {
	settings := TritonOwnAssembler(caches)
	// Triton would emit machine code; for a software GPU its last step is skipped.
	if library, real := Driver(); !real || library != "" {
		settings = append(settings, "TRITON_PTXAS_PATH="+Path("scripts", "ptxas-for-triton.sh"))
	}
	return settings
}

// TritonOwnAssembler returns the environment for a program that uses Triton and makes machine code
// with it, as it does for real GPUs.
func TritonOwnAssembler(caches string) []string {
	settings := []string{
		"TRITON_LIBCUDA_PATH=" + filepath.Join(Bin(), "lib"), "TRITON_CACHE_DIR=" + filepath.Join(caches, "triton"),
		"TORCHINDUCTOR_CACHE_DIR=" + filepath.Join(caches, "inductor"),
	}
	if _, err := exec.LookPath("gcc"); err == nil && os.Getenv("CC") == "" {
		settings = append(settings, "CC=gcc") // the default is the compiler that built Python
	}
	return settings
}
