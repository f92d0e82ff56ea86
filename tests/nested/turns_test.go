package nested

import (
	"testing"

	"github.com/phos-gpu/phos/tests/harness"
)

// TestFreedMemoryReused: freed memory can be allocated again at once. It is available to its
// program while streams of that program wait, and to other programs.
func TestFreedMemoryReused(t *testing.T) { onBothBackends(t, "turns.c", "--gpus=soft:1,memory=256MiB") }

// TestLastBlockReleased: the release of a GPU's last memory does not wait for streams of another
// GPU, which may wait for the program's next call.
func TestLastBlockReleased(t *testing.T) { onBothBackends(t, "lastblock.c", "--gpus=soft:2") }

// onBothBackends runs a program of tests/workloads/driver on a software GPU directly and on the
// backend for real GPUs.
func onBothBackends(t *testing.T, source, gpus string) {
	program := harness.CompileC(t, true, harness.Workload("driver", source))
	for _, test := range []struct {
		name  string
		start func(testing.TB, ...string) *harness.Daemon
	}{
		{"software GPU", harness.StartAlone},
		{"backend for real GPUs", harness.StartNested},
	} {
		t.Run(test.name, func(t *testing.T) {
			daemon := test.start(t, gpus)
			daemon.Program(program).In(t).OK()
			daemon.Empty()
		})
	}
}
