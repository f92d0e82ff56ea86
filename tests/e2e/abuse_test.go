package e2e

import (
	"testing"

	"github.com/phos-gpu/phos/tests/lab"
)

// TestAbuse runs programs that use the driver wrongly. They are told, and work on.
func TestAbuse(t *testing.T) {
	program := compileC(t, true, workload("fault", "abuse.c"))
	daemon := lab.Start(t)
	for _, word := range []string{
		"copies", "boxes", "frees", "launches", "handles", "events", "loads", "callbacks", "threads", "cancelled",
	} {
		t.Run(word, func(t *testing.T) {
			daemon.Program(program, word).In(t).OK()
		})
	}
	daemon.Empty()
}
