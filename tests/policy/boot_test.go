package policy

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/phos-gpu/phos/tests/harness"
)

// saved waits until a job's policy has saved it, and returns the image directory.
func saved(daemon *harness.Daemon, job *harness.Job) string {
	daemon.Eventually("it is saved", func() bool { return programOf(daemon, job).GetCheckpointGeneration() > 0 })
	return programOf(daemon, job).GetCheckpointDir()
}

// asUser makes a job a user's.
func asUser(t *testing.T, job *harness.Job, uid uint32) {
	t.Helper()
	open(t, job.Dir, int(uid))
	for _, name := range []string{"out", "err"} {
		path := filepath.Join(job.Dir, name)
		if err := os.WriteFile(path, nil, 0o644); err != nil {
			t.Fatal(err)
		}
		if err := os.Chown(path, int(uid), int(uid)); err != nil {
			t.Fatal(err)
		}
	}
	job.Prepare = func(command *exec.Cmd) {
		command.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
	}
}

// TestOnBoot: the machine goes down. Afterwards phosd restores the programs whose policies say so,
// but for those that had ended by themselves before. They go on with the right results.
func TestOnBoot(t *testing.T) {
	const uid = 4243
	base := shared(t)
	daemon := start(t, "--checkpoint-dir="+base, "--checkpoint-every=1s", "--checkpoint-restore=on-boot")
	undisturbed := countingJob(t, daemon, "150", "2000", "0").Start()
	if got := undisturbed.Finish(); got != countedStatus {
		t.Fatalf("exited with %d: %s", got, undisturbed.Stderr())
	}
	want := undisturbed.Result()
	var jobs [4]*harness.Job
	for i := range jobs {
		jobs[i] = countingJob(t, daemon, "150", "2000", "20000")
	}
	own, users, plain, ended := jobs[0], jobs[1], jobs[2], jobs[3]
	writePolicy(t, own, "checkpoint: {dir: ../image, every: 1s, restore: on-boot}\n")
	asUser(t, users, uid)
	writePolicy(t, plain, "checkpoint: {dir: ../image, every: 1s}\n")
	dirs := map[*harness.Job]string{}
	for _, job := range jobs {
		job.Start()
	}
	for _, job := range jobs {
		dirs[job] = saved(daemon, job)
	}
	if got := ended.Finish(); got != countedStatus {
		t.Errorf("exited with %d: %s", got, ended.Stderr())
	}
	daemon.Eventually("the record of the ended program is gone", func() bool { return len(daemon.BootRecords()) == 2 })
	daemon.Kill()
	for _, job := range jobs[:3] {
		job.Kill()
	}
	daemon.NewBoot()
	daemon.Eventually("two programs are restored", func() bool {
		return daemon.BootRestore(dirs[own]).GetPid() != 0 && daemon.BootRestore(dirs[users]).GetPid() != 0
	})
	if all := daemon.Status().GetPrograms(); len(all) != 2 {
		t.Errorf("got programs %v, want two", all)
	}
	if said := own.Cli("--status"); !strings.Contains(said, "restored after the machine's restart from "+dirs[own]) {
		t.Errorf("got --status\n%s", said)
	}
	for job, owner := range map[*harness.Job]uint32{own: 0, users: uid} {
		pid := daemon.BootRestore(dirs[job]).GetPid()
		info, err := os.Stat(fmt.Sprintf("/proc/%d", pid))
		if err != nil {
			t.Fatal(err)
		}
		if got := info.Sys().(*syscall.Stat_t).Uid; got != owner || int(pid) != job.PID {
			t.Errorf("restored as pid %d of user %d, want pid %d of user %d", pid, got, job.PID, owner)
		}
		job.Finish()
		_ = os.Remove(filepath.Join(job.Dir, "pos.yaml")) // the undisturbed run has none
		if differences := job.Result().Differs(want); differences != "" {
			t.Errorf("pid %d: %s", pid, differences)
		}
	}
	daemon.Eventually("no record is left", func() bool { return len(daemon.BootRecords()) == 0 })
	daemon.Empty()
}

// TestNoBoot: phosd alone restarts. It restores nothing, and forgets programs that have ended.
func TestNoBoot(t *testing.T) {
	daemon := start(t)
	runs, dies := countingJob(t, daemon, "150", "2000", "20000"), countingJob(t, daemon, "150", "2000", "20000")
	for _, job := range []*harness.Job{runs, dies} {
		writePolicy(t, job, "checkpoint: {dir: ../image, every: 1s, restore: on-boot}\n")
		job.Start()
	}
	saved(daemon, runs)
	saved(daemon, dies)
	daemon.Kill()
	dies.Kill()
	daemon.Launch()
	if got := daemon.Status(); len(got.GetPrograms()) != 1 || len(got.GetBootRestores()) != 0 {
		t.Errorf("got %v and %v, want one program", got.GetPrograms(), got.GetBootRestores())
	}
	if records := daemon.BootRecords(); len(records) != 1 {
		t.Errorf("got records %v, want one", records)
	}
	if got := runs.Finish(); got != countedStatus {
		t.Errorf("exited with %d: %s", got, runs.Stderr())
	}
	daemon.Eventually("no record is left", func() bool { return len(daemon.BootRecords()) == 0 })
	daemon.Empty()
}

// TestOnBootDrained: a drain before a restart of the machine stops a program, which is restored
// afterwards. A shutdown that ends a program before phosd is no end of its own.
func TestOnBootDrained(t *testing.T) {
	daemon := start(t)
	drained := countingJob(t, daemon, "150", "2000", "20000")
	writePolicy(t, drained, "checkpoint: {dir: ../image, on: [drain], restore: on-boot}\n")
	drained.Start().WaitLines(5)
	drained.Cli("--stop", "--drain")
	drained.WaitGone()
	daemon.Await()
	daemon.Launch()
	if got := daemon.Status().GetPrograms(); len(got) != 0 || len(daemon.BootRecords()) != 1 {
		t.Errorf("in the same boot: got programs %v and records %v", got, daemon.BootRecords())
	}
	daemon.Kill()
	// The next phosd asks this systemctl.
	bin := t.TempDir()
	if err := os.WriteFile(filepath.Join(bin, "systemctl"), []byte("#!/bin/sh\necho stopping\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	daemon.Extra = []string{"PATH=" + bin + ":" + os.Getenv("PATH")}
	daemon.NewBoot()
	isRestored := func() bool { return daemon.BootRestore(drained.Image).GetPid() != 0 }
	daemon.Eventually("it is restored", isRestored)
	drained.Kill()
	daemon.LogContains("program ended by the machine's shutdown")
	daemon.Kill()
	daemon.Extra = nil
	daemon.NewBoot()
	daemon.Eventually("it is restored again", isRestored)
	drained.Finish()
	if out, err := os.ReadFile(filepath.Join(drained.Dir, "out")); err != nil ||
		!strings.HasSuffix(string(out), "ok count\n") {
		t.Errorf("got %v, %q, want ok count", err, out)
	}
	daemon.Empty()
}

// take starts a process with a pid.
func take(t *testing.T, pid int) {
	t.Helper()
	for range 1000 { // other processes may start in between
		if err := os.WriteFile("/proc/sys/kernel/ns_last_pid", []byte(itoa(pid-1)), 0); err != nil {
			t.Fatal(err)
		}
		command := exec.Command("sleep", "1000")
		if err := command.Start(); err != nil {
			t.Fatal(err)
		}
		end := func() { _ = command.Process.Kill(); _ = command.Wait() }
		if command.Process.Pid == pid {
			t.Cleanup(end)
			return
		}
		end()
	}
	t.Fatalf("pid %d was not taken", pid)
}

// TestOnBootNewPids: after a restart of the machine another process has a program's pid. The
// program gets a pid namespace of its own, and is restored after the next restart, too.
func TestOnBootNewPids(t *testing.T) {
	daemon := start(t)
	job := countingJob(t, daemon, "150", "2000", "20000")
	writePolicy(t, job, "checkpoint: {dir: ../image, every: 1s, restore: on-boot}\n")
	job.Start()
	saved(daemon, job)
	for boot := range 2 {
		before := programOf(daemon, job).GetCheckpointGeneration()
		daemon.Eventually("it is saved", func() bool { return programOf(daemon, job).GetCheckpointGeneration() > before })
		daemon.Eventually("it has a record", func() bool { return len(daemon.BootRecords()) == 1 })
		daemon.Kill()
		job.Kill()
		if boot == 0 {
			take(t, job.PID)
		}
		daemon.NewBoot()
		daemon.Eventually("it is restored", func() bool { return daemon.BootRestore(job.Image).GetPid() != 0 })
		if got := daemon.Status().GetPrograms(); len(got) != 1 {
			t.Fatalf("got programs %v, want one", got)
		}
		if got := int(daemon.BootRestore(job.Image).GetPid()); boot == 0 && got == job.PID {
			t.Errorf("restored as pid %d, which is taken", got)
		}
		job.PID = int(daemon.BootRestore(job.Image).GetPid())
	}
	job.Finish()
	if out, err := os.ReadFile(filepath.Join(job.Dir, "out")); err != nil ||
		!strings.HasSuffix(string(out), "ok count\n") {
		t.Errorf("got %v, %q, want ok count", err, out)
	}
	daemon.Empty()
}
