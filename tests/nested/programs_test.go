package nested

import (
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"strings"
	"testing"

	"github.com/phos-gpu/phos/tests/harness"
)

// TestPrograms runs users' programs on the backend for real GPUs.
func TestPrograms(t *testing.T) {
	daemon := harness.StartNested(t, "--gpus=soft:2")
	for _, name := range []string{"vector", "link", "memops", "ipc", "peers", "orphan", "attributes"} {
		t.Run(name, func(t *testing.T) {
			daemon.Program(harness.CompileC(t, true, harness.Workload("driver", name+".c"))).In(t).OK()
		})
	}
	daemon.Empty()
}

// TestHomeDirectory: a worker's driver uses the home directory of the program's user for its cache,
// whatever phosd's environment says.
func TestHomeDirectory(t *testing.T) {
	me, err := user.Current()
	if err != nil {
		t.Fatal(err)
	}
	program := harness.CompileC(t, true, harness.Workload("driver", "vector.c"))
	library := frontDriver(t, "at_home.c")
	written := filepath.Join(t.TempDir(), "home")
	t.Setenv("CUDA_TEST_HOME", written)
	t.Setenv("HOME", "/elsewhere")
	daemon := harness.StartOver(t, harness.StartAlone(t, "--gpus=soft:1"), library)
	if err := os.Truncate(written, 0); err != nil {
		t.Fatal(err) // phosd has listed the GPUs by now
	}
	daemon.Program(program).OK()
	if homes, err := os.ReadFile(written); err != nil || string(homes) != me.HomeDir+"\n" {
		t.Errorf("%v: got home directories %q, want %s", err, homes, me.HomeDir)
	}
	daemon.Empty()
}

// TestRandomWork runs a program that makes random calls and knows their results, on a software GPU
// directly and on the backend for real GPUs. NESTED=full uses many seeds; TRACE=1 prints the calls.
// Some streams wait for words that a later call writes, while the program frees memory of all
// kinds.
func TestRandomWork(t *testing.T) {
	program := harness.CompileC(t, true, harness.Workload("random", "random.c"))
	seeds := 3
	if os.Getenv("NESTED") == "full" {
		seeds = 50
	}
	for _, test := range []struct {
		name  string
		start func(testing.TB, ...string) *harness.Daemon
	}{
		{"software GPU", harness.StartAlone},
		{"backend for real GPUs", harness.StartNested},
	} {
		t.Run(test.name, func(t *testing.T) {
			daemon := test.start(t, "--gpus=soft:2")
			for seed := range seeds {
				arguments := []string{"2", fmt.Sprint(seed + 1), "0", "3", "60"}
				p := daemon.Program(program, arguments...).In(t)
				err := p.Run()
				if said := p.Output.String(); p.ProcessState.ExitCode() != 7 || !strings.Contains(said, "\nok random\n") {
					t.Fatalf("%v: %v\n%s", arguments, err, said[max(0, len(said)-4000):])
				}
			}
			daemon.Empty()
		})
	}
}
