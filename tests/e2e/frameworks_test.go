package e2e

import (
	"path/filepath"
	"testing"

	"github.com/phos-gpu/phos/tests/lab"
)

// TestFrameworks runs what users of numba and CuPy call.
func TestFrameworks(t *testing.T) {
	python, err := lab.Tool("FRAMEWORKS_PYTHON")
	lab.Need(t, "frameworks", err)
	daemon := lab.Start(t)
	for _, name := range []string{"numba", "cupy", "cupy_ipc"} {
		t.Run(name, func(t *testing.T) {
			program := daemon.Program(python, lab.Workload("frameworks", "with_"+name+".py")).In(t)
			program.Env = append(program.Env, "PYTHONDONTWRITEBYTECODE=1", "CUPY_CACHE_DIR="+filepath.Join(t.TempDir(), "cupy"))
			program.OK()
		})
	}
	daemon.Empty()
}
