package nested

import (
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/phos-gpu/phos/hijack/abi"
	"github.com/phos-gpu/phos/tests/harness"
)

// TestFailingDriver runs a program with work of every kind over a driver of which one call fails:
// each that it makes, the first and the last time. The program must be told the driver's error by
// one of its own calls, or not be concerned at all; it must end, and unless the error ends
// everything, go on working. NESTED=full takes every call both ways both times.
func TestFailingDriver(t *testing.T) {
	program := harness.CompileC(t, true, harness.Workload("fault", "course.c"))
	o := newFaultPlan(t)
	daemon := harness.StartOver(t, harness.StartAlone(t, "--gpus=soft:1"), o.library)
	o.reset()
	daemon.Program(program).OK()
	daemon.Empty()
	made, all := o.counts(), os.Getenv("NESTED") == "full"
	for _, name := range slices.Sorted(maps.Keys(made)) {
		for how, code := range map[mode]abi.Result{once: abi.OutOfMemory, fromThenOn: abi.IllegalAddress} {
			for i, nth := range slices.Compact([]uint64{1, made[name]}) {
				if !all && (i == 0) != (how == once) {
					continue // one of each kind is enough to learn of most mistakes
				}
				t.Run(fmt.Sprintf("%s/%s/%d", name, code, nth), func(t *testing.T) {
					o.fail(name, nth, how, code)
					runProgram(t, daemon, o, program, code)
				})
			}
		}
	}
	daemon.Empty()
}

var failedWith = regexp.MustCompile(`(?m)^failed (\d+) at (.*)$`)

// mustPoison are the calls that wait and those that other work waits for: when they fail, with
// whatever error, work might start too early or never.
var mustPoison = regexp.MustCompile(`/cu(Stream|Event)(Synchronize|Query|Record|Create|WaitEvent|(Write|Wait)Value)`)

// runProgram runs the program, and says what is wrong with how it ends.
func runProgram(t *testing.T, daemon *harness.Daemon, o *faultPlan, path string, code abi.Result) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), harness.Patience)
	defer cancel()
	program := daemon.Program(path)
	command := exec.CommandContext(ctx, path)
	command.Env, command.WaitDelay = program.Env, harness.Patience/10
	output, err := command.CombinedOutput()
	said := string(output)
	told := failedWith.FindStringSubmatch(said)
	describe := func() string { return fmt.Sprintf("%s: %v, %d failed:\n%s", code, err, o.failed(), said) }
	switch {
	case ctx.Err() != nil:
		t.Errorf("it does not end: %s", describe())
	case o.failed() == 0 && err == nil && o.nth > 1:
		t.Logf("%s: this time it is not called so often", code)
	case o.failed() == 0:
		t.Errorf("nothing has failed: %s", describe())
	case told == nil && err == nil:
		t.Logf("%s is no matter", code)
	case told == nil:
		t.Errorf("it is not told: %s", describe())
	default:
		if got, _ := strconv.Atoi(told[1]); abi.Result(got) != code {
			t.Errorf("it is told otherwise: %s", describe())
		}
		if err != nil || strings.Contains(said, "\nthen ") {
			t.Errorf("it cannot go on: %s", describe())
		}
		if code == abi.OutOfMemory && strings.Contains(said, "poisoned") && !mustPoison.MatchString(t.Name()) {
			t.Errorf("it ends the context: %s", describe())
		}
		t.Logf("%s is told by %s", code, told[2])
	}
}
