package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/phos-gpu/phos/tests/harness"
)

// TestPycuda runs the pycuda that build.sh has built, or the one of the system's Python (Debian:
// python3-pycuda, in contrib).
func TestPycuda(t *testing.T) {
	compiler := harness.NVCC(t)
	python, err := withPycuda()
	harness.Need(t, "pycuda", err)
	daemon := harness.Start(t)
	program := daemon.Program(python, harness.Workload("pycuda", "kernels.py")).In(t)
	program.Env = append(program.Env,
		"PATH="+filepath.Dir(compiler)+":"+os.Getenv("PATH"),
		"NVCC_PREPEND_FLAGS="+strings.Join(harness.HostCompiler(), " "),
		"NVCC_APPEND_FLAGS=--ptx -o kernel.cubin",
		"PYCUDA_DISABLE_CACHE=1",
		"PYTHONDONTWRITEBYTECODE=1",
		"TMPDIR="+t.TempDir(), // pycuda keeps compiled code there
	)
	program.OK()
	daemon.Empty()
}

// withPycuda finds a Python that has pycuda. It does not load pycuda, which would find no driver
// without phos.
func withPycuda() (string, error) {
	if built, err := harness.Tool("PYCUDA_PYTHON"); err == nil {
		return built, nil
	}
	python, err := exec.LookPath("python3")
	if err != nil {
		return "", err
	}
	script := "import importlib.util as u, sys; sys.exit(any(u.find_spec(name) is None for name in ('pycuda', 'numpy')))"
	if err := exec.Command(python, "-c", script).Run(); err != nil {
		return "", fmt.Errorf("%s has no pycuda and numpy", python)
	}
	return python, nil
}
