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

// TestFailingDriver runs a program with all kinds of work over a driver in which one call fails:
// each call that it makes, the first and the last time. The program must get the driver's error
// from one of its own calls, or be unaffected. It must exit, and continue to work unless the error
// is fatal. NESTED=full tries every call with both errors both times.
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
					continue // one of each kind finds most bugs
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

// mustPoison lists the calls that wait and those that other work waits for. If such a call fails
// with any error, work might start too early or never.
var mustPoison = regexp.MustCompile(`/cu(Stream|Event)(Synchronize|Query|Record|Create|WaitEvent|(Write|Wait)Value)`)

// runProgram runs the program, and reports what is wrong with its exit.
func runProgram(t *testing.T, daemon *harness.Daemon, o *faultPlan, path string, code abi.Result) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), harness.Patience)
	defer cancel()
	program := daemon.Program(path)
	command := exec.CommandContext(ctx, path)
	command.Env, command.WaitDelay = program.Env, harness.Patience/10
	output, err := command.CombinedOutput()
	said := string(output)
	failure := failedWith.FindStringSubmatch(said)
	describe := func() string { return fmt.Sprintf("%s: %v, %d failed:\n%s", code, err, o.failed(), said) }
	switch {
	case ctx.Err() != nil:
		t.Errorf("the program did not exit: %s", describe())
	case o.failed() == 0 && err == nil && o.nth > 1:
		t.Logf("%s: fewer calls than before", code)
	case o.failed() == 0:
		t.Errorf("no call failed: %s", describe())
	case failure == nil && err == nil:
		t.Logf("%s has no effect", code)
	case failure == nil:
		t.Errorf("the program did not get the error: %s", describe())
	default:
		if got, _ := strconv.Atoi(failure[1]); abi.Result(got) != code {
			t.Errorf("the program got another error: %s", describe())
		}
		if err != nil || strings.Contains(said, "\nthen ") {
			t.Errorf("the program could not continue: %s", describe())
		}
		if code == abi.OutOfMemory && strings.Contains(said, "poisoned") && !mustPoison.MatchString(t.Name()) {
			t.Errorf("the context was poisoned: %s", describe())
		}
		t.Logf("%s is reported by %s", code, failure[2])
	}
}
