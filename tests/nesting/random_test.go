package nesting

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/phos-gpu/phos/tests/lab"
)

// TestRandomWork runs a program that makes calls at random, and knows what each must do, on a software GPU directly and by the backend
// for real GPUs. NESTED=full takes many seeds; TRACE=1 has it name its calls. Streams of it wait for words that only a later call
// writes, while it frees memory of all kinds.
func TestRandomWork(t *testing.T) {
	program := lab.CompileC(t, true, lab.Workload("random", "random.c"))
	seeds := 3
	if os.Getenv("NESTED") == "full" {
		seeds = 50
	}
	for _, test := range []struct {
		name  string
		start func(testing.TB, ...string) *lab.Daemon
	}{
		{"software GPU", lab.StartAlone},
		{"backend for real GPUs", lab.StartNested},
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
