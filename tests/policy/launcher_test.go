package policy

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/phos-gpu/phos/tests/harness"
)

// launcherJob prepares a program without a GPU. It starts two programs with a GPU, in directories
// of their own, and waits for both.
func launcherJob(t *testing.T, daemon *harness.Daemon, policy string) *harness.Job {
	t.Helper()
	program := harness.CompileC(t, true, harness.Workload("checkpoint", "count.c"))
	job := daemon.Job(t, "/bin/sh", "-c", `
for rank in a b; do (cd $rank && exec "$0" 100000 2000 20000 ../enough >out 2>err) & eval "$rank=$!"; done
for each in $a $b; do wait $each; [ $? = 7 ] || exit 1; done
echo ok both; exit 7`, program)
	for _, rank := range []string{"a", "b"} {
		if err := os.Mkdir(filepath.Join(job.Dir, rank), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(job.Dir, rank, "pos.yaml"), []byte(policy), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return job
}

// checkCounts compares a rank's lines with those of an undisturbed program, and returns their
// number.
func checkCounts(t *testing.T, job *harness.Job, rank string) (lines int) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(job.Dir, rank, "out"))
	if err != nil {
		t.Fatal(err)
	}
	for i, line := range strings.Split(strings.TrimSpace(strings.TrimSuffix(string(text), "ok count\n")), "\n") {
		if !strings.HasPrefix(line, fmt.Sprintf("step %d ", i)) {
			t.Fatalf("line %d of %s: %q", i, rank, line)
		}
		lines++
	}
	return lines
}

// release lets the programs finish.
func release(t *testing.T, job *harness.Job) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(job.Dir, "enough"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
}

// TestLauncher: two programs of one launcher whose policies name one directory are saved and
// restored together with it.
func TestLauncher(t *testing.T) {
	daemon := start(t)
	job := launcherJob(t, daemon, "checkpoint: {dir: ../../image, every: 1s, keep: 2}\n")
	job.Start()
	var dirs, errors []string
	daemon.Eventually("both are saved for the second time", func() bool {
		dirs, errors = nil, nil
		for _, program := range daemon.Status().GetPrograms() {
			if program.GetCheckpointGeneration() >= 2 {
				dirs = append(dirs, program.GetCheckpointDir())
			}
			if program.GetCheckpointError() != "" {
				errors = append(errors, program.GetCheckpointError())
			}
		}
		return len(dirs) == 2
	})
	if dirs[0] != job.Image || dirs[1] != job.Image || len(errors) > 0 {
		t.Errorf("checkpoints in %v: %v", dirs, errors)
	}
	if shown := job.Cli("image", "show", job.Image); strings.Count(shown, "program") < 2 ||
		!strings.Contains(shown, fmt.Sprint(job.PID)) {
		t.Errorf("the image has %s", shown)
	}
	job.Kill()
	daemon.Empty()
	job.Restore()
	before := checkCounts(t, job, "a") + checkCounts(t, job, "b")
	daemon.Eventually(
		"both continue",
		func() bool { return checkCounts(t, job, "a")+checkCounts(t, job, "b") > before+10 },
	)
	release(t, job)
	if status := job.Finish(); status != countedStatus {
		t.Errorf("launcher exited with %d: %s", status, job.Stderr())
	}
	checkCounts(t, job, "a")
	checkCounts(t, job, "b")
	daemon.Empty()
}

// TestLauncherApart: programs whose policies name different directories are saved separately.
func TestLauncherApart(t *testing.T) {
	daemon := start(t)
	job := launcherJob(t, daemon, "checkpoint: {dir: '../../image-{pid}', every: 1s}\n")
	job.Start()
	daemon.Eventually("both are saved", func() bool {
		saved := map[string]bool{}
		for _, program := range daemon.Status().GetPrograms() {
			if program.GetCheckpointGeneration() > 0 {
				saved[program.GetCheckpointDir()] = true
			}
		}
		return len(saved) == 2
	})
	release(t, job)
	if status := job.Finish(); status != countedStatus {
		t.Errorf("launcher exited with %d: %s", status, job.Stderr())
	}
	daemon.Empty()
}

// TestLauncherDrain: a drain stops a launcher together with the programs that it has started.
func TestLauncherDrain(t *testing.T) {
	daemon := start(t)
	job := launcherJob(t, daemon, "checkpoint: {dir: ../../image, on: [drain]}\n")
	job.Start()
	daemon.Eventually("both run", func() bool { return len(daemon.Status().GetPrograms()) == 2 })
	said := job.Cli("--stop", "--drain")
	if strings.Count(said, "saved and stopped pid") != 2 {
		t.Errorf("unexpected output: %s", said)
	}
	job.WaitGone()
	daemon.Launch()
	job.Restore()
	release(t, job)
	if status := job.Finish(); status != countedStatus {
		t.Errorf("launcher exited with %d: %s", status, job.Stderr())
	}
	daemon.Empty()
}
