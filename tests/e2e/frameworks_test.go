package e2e

import (
	"path/filepath"
	"testing"

	"github.com/phos-gpu/phos/tests/harness"
)

// TestFrameworks runs typical calls of numba and CuPy.
func TestFrameworks(t *testing.T) {
	python, err := harness.Tool("FRAMEWORKS_PYTHON")
	harness.Need(t, "frameworks", err)
	for _, name := range []string{"numba", "cupy", "cupy_ipc"} {
		t.Run(name, func(t *testing.T) {
			daemon := harness.Start(t, frameworkGPU(name))
			program := daemon.Program(python, harness.Workload("frameworks", "with_"+name+".py")).In(t)
			program.Env = append(program.Env, "PYTHONDONTWRITEBYTECODE=1", "CUPY_CACHE_DIR="+filepath.Join(t.TempDir(), "cupy"))
			program.OK()
			daemon.Empty()
		})
	}
}

// frameworkGPU returns the GPU for a framework. CuPy has machine code for 9.0, which a real GPU of
// that kind uses, and PTX for 10.0 only. So the inner software GPU must have a capability for which
// the PTX is the best. Numba supports none above 9.0.
func frameworkGPU(name string) string {
	if harness.Nested() && name != "numba" {
		return "--gpus=soft:1,cc=10.0"
	}
	return "--gpus=soft:1"
}
