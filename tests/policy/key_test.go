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

const stranger = 4244

func as(uid uint32, command *exec.Cmd) *exec.Cmd {
	command.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
	return command
}

// TestForeignImage: a user can restore another machine's image as long as that machine's key is
// imported.
func TestForeignImage(t *testing.T) {
	here, there := start(t), start(t)
	job := countingJob(t, here, "1500", "2000", "20000")
	open(t, job.Dir, stranger)
	for _, name := range []string{"out", "err"} {
		if err := os.WriteFile(filepath.Join(job.Dir, name), nil, 0o644); err != nil {
			t.Fatal(err)
		}
		open(t, filepath.Dir(job.Dir), stranger)
		if err := os.Chown(filepath.Join(job.Dir, name), stranger, stranger); err != nil {
			t.Fatal(err)
		}
	}
	job.Prepare = func(command *exec.Cmd) { as(stranger, command) }
	job.Start().WaitLines(5)
	if said, err := run(here, stranger, "", "--dump", "--dir", job.Image, "--pid", fmt.Sprint(job.PID)); err != nil {
		t.Fatalf("%v: %s", err, said)
	}
	job.WaitGone()
	restore := []string{"--restore", "--detach", "--dir", job.Image}
	refused := func(when string) {
		t.Helper()
		if said, err := run(there, stranger, "", restore...); err == nil ||
			!strings.Contains(said, "another machine needs root, or its key") {
			t.Errorf("%s: %v: %s", when, err, said)
		}
	}
	refused("without the key")
	key, err := run(here, 0, "", "image", "key", "export")
	if err != nil || len(strings.TrimSpace(key)) != 64 {
		t.Fatalf("%v: %q", err, key)
	}
	refusesKeys(t, there, key)
	if said, err := run(there, 0, key, "image", "key", "import", "here"); err != nil {
		t.Fatalf("%v: %s", err, said)
	}
	there.Kill()
	there.Launch()
	if said, err := run(there, 0, "", "image", "key", "list"); err != nil || said != "here\n" {
		t.Errorf("%v: %q", err, said)
	}
	if said, err := run(there, stranger+1, "", restore...); err == nil {
		t.Errorf("another user: %s", said)
	}
	if said, err := run(there, stranger, "", restore...); err != nil {
		t.Fatalf("%v: %s", err, said)
	}
	job.WaitLines(job.Lines() + 2)
	job.Kill()
	if said, err := run(there, 0, "", "image", "key", "forget", "here"); err != nil {
		t.Errorf("%v: %s", err, said)
	}
	refused("after the key was forgotten")
	if said, err := run(there, 0, "", append(restore, "--trust-seal")...); err != nil {
		t.Fatalf("root: %v: %s", err, said)
	}
	job.Finish()
	for _, daemon := range []*harness.Daemon{here, there} {
		daemon.Empty()
	}
}

// run runs pos_cli as a user, with standard input.
func run(daemon *harness.Daemon, uid uint32, stdin string, arguments ...string) (string, error) {
	command := as(uid, daemon.Command(arguments...))
	command.Stdin = strings.NewReader(stdin)
	said, err := command.CombinedOutput()
	return string(said), err
}

// refusesKeys: wrong keys are refused with the reason, and change nothing.
func refusesKeys(t *testing.T, daemon *harness.Daemon, key string) {
	t.Helper()
	for _, test := range []struct {
		uid         uint32
		stdin, says string
		arguments   []string
	}{
		{stranger, "", "only root", []string{"export"}},
		{stranger, key, "only root", []string{"import", "here"}},
		{0, "not a key", "not a key", []string{"import", "here"}},
		{0, "0f0f", "not a key", []string{"import", "here"}},
		{0, key, "a key's name", []string{"import", "../here"}},
		{0, "", "no key is called here; see: pos_cli image key list", []string{"forget", "here"}},
	} {
		said, err := run(daemon, test.uid, test.stdin, append([]string{"image", "key"}, test.arguments...)...)
		if err == nil || !strings.Contains(said, test.says) {
			t.Errorf("%v as user %d: %v: %s", test.arguments, test.uid, err, said)
		}
	}
}

// TestEager: with --eager all memory is loaded before the program runs.
func TestEager(t *testing.T) {
	daemon := start(t, "--gpus=soft:1,deterministic")
	want := countingJob(t, daemon, "120", "500000", "0").Start()
	if status := want.Finish(); status != countedStatus {
		t.Fatalf("program exited with %d: %s", status, want.Stderr())
	}
	job := countingJob(t, daemon, "120", "500000", "20000").Start()
	job.WaitLines(5)
	job.Dump()
	c := call(t, daemon)
	ctx, cancel := testContext(t)
	defer cancel()
	for _, eager := range []bool{true, false} {
		stream := c.restore(ctx, beginRestore(c, job.Image, eager))
		running := receiveUntil(t, stream.Recv, isRunning).GetRunning()
		loaded := receiveUntil(t, stream.Recv, isLoaded).GetLoaded()
		if running.GetProcesses() != 1 || loaded.GetBytes() < 2_000_000 {
			t.Errorf("eager %v: %v, %v", eager, running, loaded)
		}
		if eager {
			job.WaitLines(job.Lines() + 2)
			job.Kill()
		}
	}
	job.Finish()
	if differences := job.Result().Differs(want.Result()); differences != "" {
		t.Error(differences)
	}
	daemon.Empty()
}
