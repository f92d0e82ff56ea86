package e2e

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/phos-gpu/phos/hijack/abi"
	"github.com/phos-gpu/phos/tests/harness"
)

// TestClosedPrograms: programs that are not dumpable share memory with kernels and copy like
// others, as root and as a user. phosd opens for the workers what they may not open themselves.
func TestClosedPrograms(t *testing.T) {
	harness.Need(t, "root", harness.Root())
	program := harness.CompileC(t, true, harness.Workload("driver", "shared.c"))
	daemon := harness.Start(t)
	for _, how := range []string{"", "closed", "closing"} {
		for _, user := range []uint32{0, 61236} {
			t.Run(fmt.Sprintf("%s of user %d", how, user), func(t *testing.T) {
				daemon.Program(program, how).As(user, user).In(t).OK()
			})
		}
	}
	t.Run("of the next phosd", func(t *testing.T) {
		dir := t.TempDir()
		if err := errors.Join(os.Chmod(dir, 0o755), os.Chmod(filepath.Dir(dir), 0o755)); err != nil {
			t.Fatal(err)
		}
		waits := daemon.Program(program, "closing", filepath.Join(dir, "go")).As(61236, 61236).In(t)
		waits.StartUntil("waiting")
		daemon.Kill()
		daemon.Launch()
		if err := os.WriteFile(filepath.Join(dir, "go"), nil, 0o644); err != nil {
			t.Fatal(err)
		}
		if err := waits.Wait(); err != nil {
			t.Errorf("%v: %s", err, waits.Output.String())
		}
	})
	daemon.Empty()
}

// TestClosedGraph: a graph's copy of the memory of a user's program that is not dumpable is refused
// with the reason, because no thread of the program waits that could copy. Everything else works.
// Root's worker needs no thread.
func TestClosedGraph(t *testing.T) {
	harness.Need(t, "root", harness.Root())
	program := harness.CompileC(t, true, harness.Workload("fault", "closed.c"))
	daemon := harness.Start(t)
	for user, result := range map[uint32]abi.Result{0: abi.Success, 61236: abi.NotPermitted} {
		closed := daemon.Program(program).As(user, user)
		closed.OK()
		if said := closed.Output.String(); !strings.Contains(said, fmt.Sprintf("ok closed %d\n", result)) {
			t.Errorf("user %d: %s, want %v", user, said, result)
		}
	}
	daemon.LogContains("the program's memory may not be touched from outside, and no thread of it waits that could copy")
	daemon.Empty()
}
