package nesting

import (
	"os"
	"os/user"
	"path/filepath"
	"testing"

	"github.com/phos-gpu/phos/tests/lab"
)

// TestPrograms runs programs of users by the backend for real GPUs.
func TestPrograms(t *testing.T) {
	daemon := lab.StartNested(t, "--gpus=soft:2")
	for _, name := range []string{"vector", "link", "memops", "ipc", "peers", "orphan", "attributes"} {
		t.Run(name, func(t *testing.T) {
			daemon.Program(lab.CompileC(t, true, lab.Workload("driver", name+".c"))).In(t).OK()
		})
	}
	daemon.Empty()
}

// TestAtHome: the driver of a worker is at home where the program's user is, whatever phosd's environment says, as it keeps there what it
// has compiled.
func TestAtHome(t *testing.T) {
	me, err := user.Current()
	if err != nil {
		t.Fatal(err)
	}
	program := lab.CompileC(t, true, lab.Workload("driver", "vector.c"))
	library := inFront(t, "at_home.c")
	written := filepath.Join(t.TempDir(), "home")
	t.Setenv("CUDA_TEST_HOME", written)
	t.Setenv("HOME", "/elsewhere")
	daemon := lab.StartOver(t, lab.StartAlone(t, "--gpus=soft:1"), library)
	if err := os.Truncate(written, 0); err != nil {
		t.Fatal(err) // phosd has asked what GPUs there are
	}
	daemon.Program(program).OK()
	if homes, err := os.ReadFile(written); err != nil || string(homes) != me.HomeDir+"\n" {
		t.Errorf("%v: the driver is at home in %q; want %s", err, homes, me.HomeDir)
	}
	daemon.Empty()
}
