package nesting

import (
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
