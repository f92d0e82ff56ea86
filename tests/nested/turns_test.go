package nested

import (
	"testing"

	"github.com/phos-gpu/phos/tests/harness"
)

// TestFreedMemoryReused: freed memory can be allocated again at once. It is available to its
// program while streams of that program wait, and to other programs.
func TestFreedMemoryReused(t *testing.T) {
	program := harness.CompileC(t, true, harness.Workload("driver", "turns.c"))
	for _, test := range []struct {
		name  string
		start func(testing.TB, ...string) *harness.Daemon
	}{
		{"software GPU", harness.StartAlone},
		{"backend for real GPUs", harness.StartNested},
	} {
		t.Run(test.name, func(t *testing.T) {
			daemon := test.start(t, "--gpus=soft:1,memory=256MiB")
			daemon.Program(program).In(t).OK()
			daemon.Empty()
		})
	}
}
