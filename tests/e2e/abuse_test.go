package e2e

import (
	"fmt"
	"os"
	"regexp"
	"strconv"
	"testing"

	"github.com/phos-gpu/phos/tests/harness"
)

// TestAbuse runs programs that use the driver wrongly. They get errors and continue.
func TestAbuse(t *testing.T) {
	program := harness.CompileC(t, true, harness.Workload("fault", "abuse.c"))
	daemon := harness.Start(t)
	for _, word := range []string{
		"copies", "boxes", "frees", "launches", "handles", "events", "loads", "callbacks", "threads", "cancelled",
	} {
		t.Run(word, func(t *testing.T) {
			daemon.Program(program, word).In(t).OK()
		})
	}
	daemon.Empty()
}

// TestFlood runs a program that only submits work, and checks the memory of its worker.
func TestFlood(t *testing.T) {
	program := harness.CompileC(t, true, harness.Workload("fault", "abuse.c"))
	daemon := harness.Start(t)
	flood := daemon.Program(program, "flood")
	flood.StartUntil("flooded")
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", daemon.Status().GetPrograms()[0].GetWorkerPid()))
	if err != nil {
		t.Fatal(err)
	}
	match := regexp.MustCompile(`VmHWM:\s+(\d+) kB`).FindSubmatch(status)
	if match == nil {
		t.Fatalf("status:\n%s", status)
	}
	most, err := strconv.Atoi(string(match[1]))
	if err != nil || most > 96<<10 {
		t.Errorf("the worker grew to %d KiB (%v)", most, err)
	}
	t.Logf("the worker grew to %d KiB", most)
	_ = flood.Process.Kill()
	_ = flood.Wait()
	daemon.Empty()
}
