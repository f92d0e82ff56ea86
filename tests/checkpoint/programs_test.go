package checkpoint

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/phos-gpu/phos/tests/harness"
)

// shortRun are the CUDA programs that are saved in a short run too.
var shortRun = []string{"graphs", "memory", "streams"}

// TestAnyProgram saves and restores the CUDA programs of the other tests, at a random time. With
// PHOS_ROUNDS above 1 it takes all of them, each that many times.
func TestAnyProgram(t *testing.T) {
	rounds, seed := harness.Setting(t, "PHOS_ROUNDS", 1),
		harness.Setting(t, "PHOS_SEED", uint64(time.Now().UnixNano())%1e9)
	t.Logf("PHOS_SEED=%d PHOS_ROUNDS=%d", seed, rounds)
	sources, err := filepath.Glob(harness.Workload("cuda", "*.cu"))
	if err != nil || len(sources) == 0 {
		t.Fatal("no programs", err)
	}
	daemon := start(t)
	for _, source := range sources {
		name := strings.TrimSuffix(filepath.Base(source), ".cu")
		only := os.Getenv("PHOS_SUBJECT")
		if only != "" && only != name || rounds == 1 && only == "" && !slices.Contains(shortRun, name) {
			continue
		}
		t.Run(name, func(t *testing.T) {
			program := harness.CompileCUDA(t, "static", source)
			begun := time.Now()
			want, status := runUndisturbed(daemon.Job(t, program))
			if status != 0 || !strings.Contains("\n"+want["out"], "\nok ") {
				t.Fatalf("the undisturbed run exited with status %d: %s%s", status, want["out"], want["err"])
			}
			takes := time.Since(begun)
			for n := range rounds {
				random := rand.New(rand.NewPCG(seed, n))
				checkpointHalfway(t, daemon.Job(t, program), time.Duration(random.Int64N(int64(takes/4*3))), want)
			}
		})
	}
	daemon.Empty()
}

// checkpointHalfway stops a program after a while, as Ctrl-Z does, saves and ends it, restores and
// continues it, and compares its files. A program that was stopped within a call cannot be saved,
// nor can one on a machine that is too slow for the deadline. In these cases the program continues.
func checkpointHalfway(t *testing.T, job *harness.Job, after time.Duration, want harness.Result) {
	t.Helper()
	job.Prepare = func(command *exec.Cmd) { command.Env = append(command.Env, "LD_LIBRARY_PATH="+libraries()) }
	job.Start()
	time.Sleep(after)
	job.Signal(syscall.SIGSTOP)
	text, err := job.TryCli("--pre-dump", "--idle-time", "1s", "--dir", job.Image, "--pid", fmt.Sprint(job.PID))
	switch {
	case err == nil:
		job.Kill()
		job.Restore()
	case !strings.Contains(text, "no such program") && !strings.Contains(text, "--idle-time gives it more time"):
		t.Errorf("after %v: %v: %s", after, err, text)
	}
	job.Signal(syscall.SIGCONT)
	status := job.Finish()
	if differences := job.Result().Differs(want); differences != "" || status != 0 {
		t.Errorf("saved after %v (%v): exited with status %d: %s: %s", after, err, status, differences, job.Stderr())
	}
	t.Logf("after %v: %v: %s", after, err, text)
}
