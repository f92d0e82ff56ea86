package e2e

import (
	"testing"

	"github.com/phos-gpu/phos/tests/harness"
)

// TestCalls runs the programs that each check a group of less common calls of frameworks.
func TestCalls(t *testing.T) {
	daemon := harness.Start(t, "--gpus=soft:2")
	for _, name := range []string{
		"memops", "ipc", "peers", "batch", "orphan", "attributes", "synchrony", "copysync",
		"initial", "bounds", "settings",
	} {
		t.Run(name, func(t *testing.T) {
			if name == "peers" {
				daemon.NeedGPUs(t, 2)
			}
			daemon.Program(harness.CompileC(t, true, harness.Workload("driver", name+".c"))).In(t).OK()
		})
	}
	daemon.Empty()
}
