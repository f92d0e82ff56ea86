package checkpoint

import (
	"encoding/json"
	"fmt"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/phos-gpu/phos/tests/harness"
)

// start starts a phosd whose GPU runs everything in one order.
func start(t *testing.T, arguments ...string) *harness.Daemon {
	t.Helper()
	_, err := harness.CRIU()
	harness.Need(t, "criu", err)
	return harness.Start(t, append([]string{"--gpus=soft:1,deterministic"}, arguments...)...)
}

// generations is the number of generations in the jobs' images.
const generations = 3

// TestKilledAndRestored saves a program while it runs, kills it, and restores every generation.
func TestKilledAndRestored(t *testing.T) {
	daemon := start(t)
	program := harness.CompileC(t, true, harness.Workload("checkpoint", "count.c"))
	for _, stop := range []bool{false, true} {
		t.Run(
			map[bool]string{false: "pre-dump", true: "dump"}[stop],
			func(t *testing.T) { killedAndRestored(t, daemon, program, stop) },
		)
	}
	daemon.Empty()
}

// TestCompared repeats the test on a GPU that does not report which memory is dirty. Real GPUs do
// not report it either, so phosd compares contents.
func TestCompared(t *testing.T) {
	daemon := start(t, "--gpus=soft:1,deterministic,marks=off")
	killedAndRestored(t, daemon, harness.CompileC(t, true, harness.Workload("checkpoint", "count.c")), false)
	daemon.Empty()
}

// killedAndRestored takes several checkpoints of a program, kills it, and restores each.
func killedAndRestored(t *testing.T, daemon *harness.Daemon, program string, stop bool) {
	t.Helper()
	want, status := runUndisturbed(daemon.Job(t, program, "60", "20000", "0"))
	job := daemon.Job(t, program, "60", "20000", "10000")
	job.Hold = true
	job.Start()
	for n := range generations {
		job.WaitLines(n*10 + 5)
		if stop {
			t.Log(job.Dump())
			job.RestoreDetached()
		} else {
			t.Log(job.PreDump())
		}
	}
	checkSignature(t, job)
	if !stop {
		checkPause(t, job)
	}
	job.WaitLines(40)
	job.Kill()
	compareGenerations(t, job, want, status)
}

// checkSignature checks that an image names the versions, the machine and the user that made it.
func checkSignature(t *testing.T, job *harness.Job) {
	t.Helper()
	shown, err := job.TryCli("image", "show", job.Image)
	for _, want := range []string{
		`created .*, by phos \d+\.\d+`, `machine .*kernel \d+\.`, `user +root \(uid 0, gid 0\)`, `pause +[1-9]`,
		`by CRIU \d+\.\d+`,
	} {
		if err != nil || !regexp.MustCompile(want).MatchString(shown) {
			t.Errorf("image show: %v, and no %q in:\n%s", err, want, shown)
		}
	}
}

// checkPause checks that an image says what its pause was spent on, and that it is not more than
// the pause.
func checkPause(t *testing.T, job *harness.Job) {
	t.Helper()
	spent := regexp.MustCompile(`calls done [1-9].*frozen [1-9].*saved [1-9].*processes [1-9].*GPU [1-9].*resumed [1-9]`)
	if text := job.Cli("image", "show", job.Image); !spent.MatchString(text) {
		t.Errorf("image show: %s", text)
	}
	var shown struct {
		Manifest struct {
			Stats struct {
				Pause  uint64            `json:"pause_microseconds"`
				Paused map[string]uint64 `json:"paused_microseconds"`
			} `json:"stats"`
		} `json:"manifest"`
	}
	if err := json.Unmarshal([]byte(job.Cli("image", "show", job.Image, "--json")), &shown); err != nil {
		t.Fatal(err)
	}
	stats := shown.Manifest.Stats
	sum := uint64(0)
	for _, step := range []string{"quiesce", "freeze", "cut"} {
		if stats.Paused[step] == 0 {
			t.Errorf("image show --json: the pause was not spent on %s: %v", step, stats.Paused)
		}
		sum += stats.Paused[step]
	}
	if sum > stats.Pause {
		t.Errorf("image show --json: a pause of %d, spent on %v", stats.Pause, stats.Paused)
	}
	for part, spent := range stats.Paused {
		if strings.HasPrefix(part, "cut.") && spent > stats.Paused["cut"] {
			t.Errorf("image show --json: %s is longer than its step: %v", part, stats.Paused)
		}
	}
}

// runUndisturbed returns what a job writes when it is not interrupted.
func runUndisturbed(job *harness.Job) (harness.Result, int) {
	status := job.Start().Finish()
	return job.Result(), status
}

// compareGenerations restores every generation of a job's image, the oldest last, and compares what
// the job writes.
func compareGenerations(t *testing.T, job *harness.Job, want harness.Result, status int) {
	t.Helper()
	for n := generations; n > 0; n-- {
		job.Restore("--generation", fmt.Sprint(n))
		job.FinishLike(t, fmt.Sprint("generation ", n), want, status)
	}
}

// TestRepeatedCheckpoints saves programs that are never idle, one checkpoint after the other, and
// restores some generations.
func TestRepeatedCheckpoints(t *testing.T) {
	daemon := start(t)
	for _, test := range []struct {
		name      string
		program   string
		arguments []string
		lines     int
	}{
		{"driver", harness.CompileC(t, true, harness.Workload("checkpoint", "count.c")), []string{"1500", "3000", "0"}, 1500},
		{"runtime", harness.CompileCUDA(t, "shared", harness.Workload("checkpoint", "mixed.cu")), []string{"300", "0"}, 300},
	} {
		t.Run(test.name, func(t *testing.T) {
			prepare := func(command *exec.Cmd) { command.Env = append(command.Env, "LD_LIBRARY_PATH="+libraries()) }
			plain := daemon.Job(t, test.program, test.arguments...)
			plain.Prepare = prepare
			want, status := runUndisturbed(plain)
			job := daemon.Job(t, test.program, test.arguments...)
			job.Hold, job.Prepare = true, prepare
			job.Start()
			saved, lines, since := 0, 0, 0
			for job.Lines() < test.lines {
				if now := job.Lines(); now > lines {
					lines, since = now, saved
				}
				if saved-since > 200 {
					t.Fatalf("no step during %d checkpoints", saved-since)
				}
				if text, err := job.TryCli("--pre-dump", "--dir", job.Image, "--pid", fmt.Sprint(job.PID)); err == nil {
					saved++
				} else if job.Lines() < test.lines {
					t.Fatalf("after %d: %v: %s", saved, err, text)
				}
			}
			t.Logf("saved %d times", saved)
			if saved == 0 {
				t.Fatal("the program exited before a checkpoint")
			}
			job.Kill()
			job.Release()
			for _, n := range []int{saved, 1 + saved/2, 1} {
				job.Restore("--generation", fmt.Sprint(n))
				job.FinishLike(t, fmt.Sprint("generation ", n), want, status)
			}
		})
	}
	daemon.Empty()
}
