package nesting

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/phos-gpu/phos/tests/lab"
)

// TestRandomWork runs a program that makes calls at random, and knows what each must do, on a software GPU directly and by the backend
// for real GPUs. NESTED=full takes many seeds; TRACE=1 has it name its calls.
//
// By the backend for real GPUs no stream waits for words: a program whose streams wait for words can come to a stop there. What
// gives memory back has the driver unmap it, which may wait for all work, while the session takes no calls; and work that waits for a
// word may wait for one of those, as for the end of a function of the program's.
func TestRandomWork(t *testing.T) {
	program := lab.CompileC(t, true, lab.Workload("random", "random.c"))
	seeds := 2
	if os.Getenv("NESTED") == "full" {
		seeds = 50
	}
	for _, test := range []struct {
		name  string
		start func(testing.TB, ...string) *lab.Daemon
		more  []string
	}{
		{"software GPU", lab.StartAlone, nil},
		{"backend for real GPUs", lab.StartNested, []string{"wordless"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			daemon := test.start(t, "--gpus=soft:2")
			for seed := range seeds {
				arguments := append([]string{"2", fmt.Sprint(seed + 1), "0", "3", "60"}, test.more...)
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
