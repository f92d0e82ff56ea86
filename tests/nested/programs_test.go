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

// TestPrograms runs programs of users by the backend for real GPUs.
func TestPrograms(t *testing.T) {
	daemon := harness.StartNested(t, "--gpus=soft:2")
	for _, name := range []string{"vector", "link", "memops", "ipc", "peers", "orphan", "attributes"} {
		t.Run(name, func(t *testing.T) {
			daemon.Program(harness.CompileC(t, true, harness.Workload("driver", name+".c"))).In(t).OK()
		})
	}
	daemon.Empty()
}

// TestHomeDirectory: the driver of a worker is at home where the program's user is, whatever phosd's
// environment says, as it keeps there what it has compiled.
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
		t.Fatal(err) // phosd has asked what GPUs there are
	}
	daemon.Program(program).OK()
	if homes, err := os.ReadFile(written); err != nil || string(homes) != me.HomeDir+"\n" {
		t.Errorf("%v: the driver is at home in %q; want %s", err, homes, me.HomeDir)
	}
	daemon.Empty()
}

// TestRandomWork runs a program that makes calls at random, and knows what each must do, on a
// software GPU directly and by the backend for real GPUs. NESTED=full takes many seeds; TRACE=1 has
// it name its calls. Streams of it wait for words that only a later call writes, while it frees
// memory of all kinds.
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
