package nested

import (
	"testing"

	"github.com/phos-gpu/phos/tests/harness"
)

// TestFreedMemoryReused: memory that is freed can be had at once, by its program while streams of that wait,
// and by others.
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
