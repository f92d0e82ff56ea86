package nesting

import (
	"testing"

	"github.com/phos-gpu/phos/tests/lab"
)

// TestTurns: memory that is freed can be had at once, by its program while streams of that wait, and by others.
func TestTurns(t *testing.T) {
	program := lab.CompileC(t, true, lab.Workload("driver", "turns.c"))
	for _, test := range []struct {
		name  string
		start func(testing.TB, ...string) *lab.Daemon
	}{
		{"software GPU", lab.StartAlone},
		{"backend for real GPUs", lab.StartNested},
	} {
		t.Run(test.name, func(t *testing.T) {
			daemon := test.start(t, "--gpus=soft:1,memory=256MiB")
			daemon.Program(program).In(t).OK()
			daemon.Empty()
		})
	}
}
