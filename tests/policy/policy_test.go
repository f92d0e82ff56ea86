package policy

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/phos-gpu/phos/daemon/api"
	"github.com/phos-gpu/phos/tests/harness"
)

// programOf returns the status of a job.
func programOf(daemon *harness.Daemon, job *harness.Job) *api.Program {
	for _, program := range daemon.Status().GetPrograms() {
		if int(program.GetPid()) == job.PID {
			return program
		}
	}
	return &api.Program{}
}

// writePolicy writes a job's pos.yaml.
func writePolicy(t *testing.T, job *harness.Job, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(job.Dir, "pos.yaml"), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// generationsIn returns the generations of an image.
func generationsIn(t *testing.T, job *harness.Job, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(filepath.Join(dir, "generations"))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	return names
}

// TestEvery: a program is saved periodically by its pos.yaml. Old generations are removed, and the
// newest can be restored.
func TestEvery(t *testing.T) {
	daemon := start(t)
	job := countingJob(t, daemon, "1000", "20000", "20000")
	writePolicy(t, job, "checkpoint:\n  dir: ../image\n  every: 1s\n  keep: 2\n  bandwidth: 1GiB\n")
	job.Start()
	daemon.Eventually(
		"five generations were written",
		func() bool { return programOf(daemon, job).GetCheckpointGeneration() >= 5 },
	)
	said := programOf(daemon, job)
	if said.GetCheckpointDir() != job.Image || said.GetCheckpointError() != "" || said.GetPolicy().GetKeep() != 2 {
		t.Errorf("got status %v", said)
	}
	job.Kill()
	if left := generationsIn(t, job, job.Image); len(left) < 2 || len(left) > 3 { // one more may not have been removed yet
		t.Errorf("got generations %v", left)
	}
	var status struct {
		Programs []any `json:"programs"`
	}
	if err := json.Unmarshal([]byte(job.Cli("--status", "--json")), &status); err != nil {
		t.Error(err)
	}
	job.Restore()
	if got := job.Finish(); got != countedStatus {
		t.Errorf("program exited with %d: %s", got, job.Stderr())
	}
	daemon.Empty()
}

// TestEveryForAll: the policy in phosd.toml gives each program a directory of its own, below a
// directory of its user.
func TestEveryForAll(t *testing.T) {
	base := shared(t)
	daemon := start(t, "--checkpoint-dir="+base, "--checkpoint-every=1s", "--checkpoint-keep=1")
	const user = 4243
	ours, theirs := countingJob(t, daemon, "1500", "2000", "20000"), countingJob(t, daemon, "1500", "2000", "20000")
	silent := countingJob(t, daemon, "1500", "2000", "20000")
	writePolicy(t, silent, "checkpoint: {}\n")
	open(t, theirs.Dir, user)
	for _, name := range []string{"out", "err"} { // a user's program is saved with that user's privileges
		if err := os.WriteFile(filepath.Join(theirs.Dir, name), nil, 0o644); err != nil {
			t.Fatal(err)
		}
		if err := os.Chown(filepath.Join(theirs.Dir, name), user, user); err != nil {
			t.Fatal(err)
		}
	}
	theirs.Prepare = func(command *exec.Cmd) {
		command.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: user, Gid: user}}
	}
	for _, job := range []*harness.Job{ours, theirs, silent} {
		job.Start()
	}
	for job, owner := range map[*harness.Job]int{ours: 0, theirs: user} {
		daemon.Eventually(
			"two checkpoints",
			func() bool { return programOf(daemon, job).GetCheckpointGeneration() >= 2 },
		)
		dir := programOf(daemon, job).GetCheckpointDir()
		if !strings.HasPrefix(dir, fmt.Sprintf("%s/%d/program-%d-", base, owner, job.PID)) {
			t.Errorf("the program of user %d is saved in %s", owner, dir)
		}
		for _, path := range []string{dir, filepath.Join(dir, "generations"), filepath.Dir(dir)} {
			info, err := os.Stat(path)
			if err != nil {
				t.Fatal(err)
			}
			if uid := info.Sys().(*syscall.Stat_t).Uid; int(uid) != owner {
				t.Errorf("%s belongs to user %d, want %d", path, uid, owner)
			}
		}
		job.Kill()
	}
	if said := programOf(daemon, silent); said.GetLastCheckpointUnixMilliseconds() != 0 || said.GetPolicy() != nil {
		t.Errorf("a program without checkpoints: %v", said)
	}
	silent.Kill()
	daemon.Empty()
}

// shared returns a directory that all users may enter.
func shared(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "phos-shared-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	open(t, dir, 0)
	return dir
}

// open creates a directory that a user may use, and makes its parents accessible.
func open(t *testing.T, dir string, uid int) {
	t.Helper()
	if err := os.Chown(dir, uid, uid); err != nil {
		t.Fatal(err)
	}
	for ; len(dir) > len("/tmp"); dir = filepath.Dir(dir) {
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
}

// TestPolicyFails: the status and the log name the error of a policy's checkpoint. The program
// continues, and is saved when the cause is gone.
func TestPolicyFails(t *testing.T) {
	daemon := start(t)
	job := countingJob(t, daemon, "1500", "2000", "20000")
	writePolicy(t, job, "checkpoint: {dir: ../image, every: 1s}\n")
	if err := os.WriteFile(job.Image, []byte("no directory"), 0o600); err != nil {
		t.Fatal(err)
	}
	job.Start()
	daemon.Eventually("the failure is reported", func() bool {
		return strings.Contains(programOf(daemon, job).GetCheckpointError(), "not a directory")
	})
	daemon.LogContains("checkpoint failed")
	if text := job.Cli("--status"); !strings.Contains(text, "checkpoint failed") ||
		!strings.Contains(text, "checkpoints every 1s into ../image") {
		t.Errorf("got --status\n%s", text)
	}
	if err := os.Remove(job.Image); err != nil {
		t.Fatal(err)
	}
	daemon.Eventually("it is saved", func() bool {
		said := programOf(daemon, job)
		return said.GetLastCheckpointUnixMilliseconds() != 0 && said.GetCheckpointError() == ""
	})
	job.Kill()
	daemon.Empty()
}

// TestSharedDirectory: two programs have the same image directory in their policies, so only one is
// saved. With the pid in the directory's name, both are saved.
func TestSharedDirectory(t *testing.T) {
	daemon := start(t)
	image := shared(t)
	for _, test := range []struct {
		dir  string
		both bool
	}{{image + "/one", false}, {image + "/{job}-{pid}", true}} {
		jobs := []*harness.Job{
			countingJob(t, daemon, "1500", "2000", "20000"),
			countingJob(t, daemon, "1500", "2000", "20000"),
		}
		for _, job := range jobs {
			writePolicy(t, job, "checkpoint: {dir: '"+test.dir+"', every: 1s}\n")
			job.Start()
		}
		saved, refused := 0, 0
		daemon.Eventually("each program is saved or refused", func() bool {
			saved, refused = 0, 0
			for _, job := range jobs {
				said := programOf(daemon, job)
				if said.GetLastCheckpointUnixMilliseconds() != 0 {
					saved++
				}
				if strings.Contains(said.GetCheckpointError(), "another program has the same directory") {
					refused++
				}
			}
			return saved+refused == len(jobs)
		})
		if test.both != (refused == 0) || saved == 0 {
			t.Errorf("%s: %d saved, %d refused", test.dir, saved, refused)
		}
		for _, job := range jobs {
			job.Kill()
		}
	}
	daemon.Empty()
}

// TestDrain: a drain saves and stops all programs before phosd exits. They are restored under the
// next phosd.
func TestDrain(t *testing.T) {
	daemon := start(t)
	base := shared(t)
	named, nameless := countingJob(t, daemon, "1500", "2000", "20000"), countingJob(t, daemon, "1500", "2000", "20000")
	writePolicy(t, named, "checkpoint: {dir: ../image, on: [drain]}\n")
	jobs := []*harness.Job{named.Start(), nameless.Start()}
	for _, job := range jobs {
		job.WaitLines(5)
	}
	said, err := named.TryCli("--stop", "--drain")
	if err == nil || !strings.Contains(said, fmt.Sprintf("pid %d", nameless.PID)) ||
		!strings.Contains(said, "phosd goes on") {
		t.Errorf("drain with a program without an image directory: %v, %s", err, said)
	}
	for _, job := range jobs {
		job.WaitLines(job.Lines() + 2)
	}
	said = named.Cli("--stop", "--drain", "--dir", base)
	for _, job := range jobs {
		if !strings.Contains(said, fmt.Sprintf("saved and stopped pid %d", job.PID)) {
			t.Errorf("pid %d is missing in %s", job.PID, said)
		}
		job.WaitGone()
	}
	found, err := filepath.Glob(base + "/0/program-*")
	if err != nil || len(found) != 1 {
		t.Fatalf("%s contains %v, %v", base, found, err)
	}
	nameless.Image = found[0]
	daemon.Launch()
	for _, job := range jobs {
		job.Restore()
	}
	for _, job := range jobs {
		if got := job.Finish(); got != countedStatus {
			t.Errorf("program exited with %d: %s", got, job.Stderr())
		}
	}
	daemon.Empty()
}

// TestExitSignal: a phosd that receives SIGTERM saves the programs whose policy asks for it. They
// continue, and the next phosd reports it.
func TestExitSignal(t *testing.T) {
	daemon := start(t)
	job, other := countingJob(t, daemon, "1500", "2000", "20000"), countingJob(t, daemon, "1500", "2000", "20000")
	writePolicy(t, job, "checkpoint: {dir: ../image, on: [exit-signal]}\n")
	job.Start().WaitLines(5)
	other.Start().WaitLines(5)
	if err := syscall.Kill(daemon.PID(), syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	daemon.Await()
	daemon.Launch()
	said := programOf(daemon, job)
	if said.GetCheckpointDir() != job.Image || said.GetCheckpointGeneration() != 1 ||
		time.Since(time.UnixMilli(said.GetLastCheckpointUnixMilliseconds())) < 0 {
		t.Errorf("the next phosd reports %v", said)
	}
	if said := programOf(daemon, other); said.GetPid() == 0 || said.GetLastCheckpointUnixMilliseconds() != 0 {
		t.Errorf("the next phosd reports %v", said)
	}
	for _, each := range []*harness.Job{job, other} {
		each.WaitLines(each.Lines() + 2)
	}
	job.Kill()
	job.Restore()
	for _, each := range []*harness.Job{job, other} {
		if got := each.Finish(); got != countedStatus {
			t.Errorf("program exited with %d: %s", got, each.Stderr())
		}
	}
	daemon.Empty()
}
