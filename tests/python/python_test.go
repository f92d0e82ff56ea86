package python

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/phos-gpu/phos/tests/harness"
)

// run runs Python in a directory, and returns what it has printed. It writes no byte code, and sees
// no other packages than those of its own.
func run(t *testing.T, dir string, arguments ...string) string {
	t.Helper()
	python, err := exec.LookPath("python3")
	harness.Need(t, "python", err)
	return runWith(t, python, dir, arguments...)
}

// runWith is run with a given Python.
func runWith(t *testing.T, python, dir string, arguments ...string) string {
	t.Helper()
	command := exec.CommandContext(t.Context(), python, arguments...)
	command.Dir = dir
	command.Env = append(os.Environ(), "PYTHONDONTWRITEBYTECODE=1", "PYTHONPATH=", "PYTHONWARNINGS=error")
	said, err := command.CombinedOutput()
	if err != nil {
		t.Fatalf("python3 %v: %v\n%s", arguments, err, said)
	}
	return string(said)
}

func TestUnits(t *testing.T) {
	t.Log(run(t, harness.Path("python"), "-m", "unittest", "discover", "-s", "tests", "-t", "."))
}

// TestUnitsOfTraining runs those of phos.pipeline with PyTorch.
func TestUnitsOfTraining(t *testing.T) {
	python, err := harness.Tool("TRAINING_PYTHON")
	harness.Need(t, "training", err)
	t.Log(runWith(t, python, harness.Path("python"), "-m", "unittest", "discover", "-s", "tests/pipeline", "-t", "."))
}

// TestWheel builds the wheel twice, with the same bytes, and imports it as Python finds it in a
// wheel.
func TestWheel(t *testing.T) {
	var built [2][]byte
	var path string
	for i := range built {
		dir := t.TempDir()
		run(t, dir, harness.Path("python/backend/wheel.py"), dir)
		found, err := filepath.Glob(filepath.Join(dir, "phos-*-py3-none-any.whl"))
		if err != nil || len(found) != 1 {
			t.Fatalf("there are %q: %v", found, err)
		}
		path = found[0]
		if built[i], err = os.ReadFile(path); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(built[0], built[1]) {
		t.Error("the same sources give two wheels")
	}
	script := `import importlib.metadata, sys
sys.path.insert(0, sys.argv[1])
import phos
assert phos.__file__.startswith(sys.argv[1]), phos.__file__
about = importlib.metadata.distribution("phos")
assert about.version == phos.__version__ and about.requires is None, about.metadata
for file in about.files:
    assert file.hash is None or file.read_binary() is not None
for name in phos.__all__:
    assert getattr(phos, name).__doc__, f"{name} is not documented"
`
	run(t, t.TempDir(), "-c", script, path)
}
