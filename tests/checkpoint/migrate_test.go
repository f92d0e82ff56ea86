package checkpoint

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/phos-gpu/phos/ckpt"
	"github.com/phos-gpu/phos/tests/harness"
)

// movable starts a phosd with several GPUs and a program on the first one, which waits at its end.
// It also returns what the program leaves if nothing disturbs it.
func movable(t *testing.T, gpus, elements string, prepare func(*exec.Cmd)) (*harness.Daemon, *harness.Job, harness.Result) {
	t.Helper()
	needSameAddresses(t)
	daemon := start(t, "--gpus="+gpus)
	program := harness.CompileC(t, true, harness.Workload("checkpoint", "count.c"))
	want, _ := runUndisturbed(daemon.Job(t, program, "40", elements, "0"))
	job := daemon.Job(t, program, "40", elements, "10000")
	job.Hold, job.Prepare = true, prepare
	job.Start()
	harness.Eventually(t, "the program has made steps", func() bool {
		made, _ := os.ReadFile(filepath.Join(job.Dir, "steps"))
		return bytes.Count(made, []byte("\n")) > 5
	})
	return daemon, job, want
}

// noCopies checks that migrations have removed their copies.
func noCopies(t *testing.T, dir string) {
	t.Helper()
	if left, err := filepath.Glob(filepath.Join(dir, "phos-migrate-*")); err != nil || len(left) > 0 {
		t.Errorf("copies are left: %v, %v", left, err)
	}
}

// TestMigrate moves a program from GPU to GPU and back. Its output is as if nothing had happened.
func TestMigrate(t *testing.T) {
	daemon, job, want := movable(t, "soft:3,deterministic", "20000", nil)
	for i, to := range []uint32{2, 1, 0} {
		said := job.Migrate(fmt.Sprint(to))
		pattern := fmt.Sprintf(`pid %d runs on GPU %d: stood still \d.*, took \d.*, copied \d.* and a rest of \d`, job.PID, to)
		if !regexp.MustCompile(pattern).MatchString(said) {
			t.Errorf("it says: %s", said)
		}
		job.WaitLines(10 + 5*i)
		hasMemoryOn(t, daemon, to)
	}
	dir := t.TempDir()
	var view struct {
		PID        int
		GPUs       []int
		StoodStill uint64 `json:"stood_still_microseconds"`
		Total      uint64 `json:"total_microseconds"`
		Copied     uint64 `json:"copied_bytes"`
		Rest       uint64 `json:"rest_bytes"`
		Notices    []string
	}
	said := job.Migrate("1", "--json", "--dir", dir)
	if err := json.Unmarshal([]byte(said), &view); err != nil {
		t.Fatalf("%v: %s", err, said)
	}
	if view.PID != job.PID || len(view.GPUs) != 1 || view.GPUs[0] != 1 || view.StoodStill == 0 ||
		view.StoodStill >= view.Total || view.Copied == 0 {
		t.Errorf("got %+v", view)
	}
	job.FinishLike(t, "moved", want, -1)
	noCopies(t, dir)
	noCopies(t, "/dev/shm")
}

// TestMigrateKeepsEnds: a program that was moved goes on writing into its pipe, and keeps its
// terminal and its socket.
func TestMigrateKeepsEnds(t *testing.T) {
	reads, writes, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	end, _ := terminal(t)
	sockets, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	near, far := os.NewFile(uintptr(sockets[0]), "near"), os.NewFile(uintptr(sockets[1]), "far")
	defer near.Close()
	_, job, want := movable(t, "soft:2", "20000", func(c *exec.Cmd) { c.Stdout, c.Stderr, c.Stdin = writes, end, far })
	writes.Close()
	end.Close()
	far.Close()
	inode := socketOf(t, job.PID, 0)
	var piped text
	read := make(chan struct{})
	go func() {
		defer close(read)
		_, _ = io.Copy(&piped, reads) // it ends with the program
	}()
	job.Migrate("1")
	job.Migrate("0")
	if now := socketOf(t, job.PID, 0); now != inode {
		t.Errorf("its standard input is %s, and was %s", now, inode)
	}
	if got := job.Finish(); got != -1 {
		t.Errorf("status %d", got)
	}
	<-read
	if differences := job.Result().Differs(without(want, "out")); differences != "" {
		t.Error(differences)
	}
	if piped.String() != want["out"] {
		t.Errorf("through the pipe came %q, want %q", piped.String(), want["out"])
	}
}

// socketOf returns the kernel's name of a socket that a process has open.
func socketOf(t *testing.T, pid, number int) string {
	t.Helper()
	name, err := os.Readlink(fmt.Sprintf("/proc/%d/fd/%d", pid, number))
	if err != nil || !strings.HasPrefix(name, "socket:") {
		t.Fatalf("descriptor %d of pid %d is %q: %v", number, pid, name, err)
	}
	return name
}

// without returns a result in which a file is empty.
func without(r harness.Result, name string) harness.Result {
	changed := harness.Result{}
	for each, text := range r {
		changed[each] = text
	}
	changed[name] = ""
	return changed
}

// TestMigrateRefused: a program that cannot be moved runs on where it was.
func TestMigrateRefused(t *testing.T) {
	daemon, job, want := movable(t, "soft:2,deterministic,memory=40MiB", "5000000", nil)
	holder := daemon.Job(t, harness.CompileC(t, true, harness.Workload("checkpoint", "count.c")), "6", "5000000", "10000")
	holder.Hold = true
	holder.Prepare = func(c *exec.Cmd) { c.Env = append(c.Env, "CUDA_VISIBLE_DEVICES=1") }
	holder.Start().WaitLines(1)
	for _, test := range []struct {
		flags []string
		says  string
	}{
		{[]string{"--gpus", "1"}, `pid \d+ has \d.* on GPUs, and \d.* of GPU 1 are free: pos_cli --status lists what uses them`},
		{[]string{"--gpu", "2"}, "phosd serves no GPU 2; it serves GPUs 0 to 1"},
		{[]string{"--gpus", "0"}, `pid \d+ is on GPU 0 already`},
	} {
		refuses(t, job, test.says, test.flags...)
	}
	hasMemoryOn(t, daemon, 0, 1)
	holder.Kill()
	holder.WaitGone()
	refuses(t, job, "directory for the copy: .*no such file or directory; choose another one with --dir",
		"--gpus", "1", "--dir", "/none")
	job.FinishLike(t, "refused", want, 7)
	noCopies(t, "/dev/shm")
}

// refuses checks that a program is not moved, for the given reason.
func refuses(t *testing.T, job *harness.Job, reason string, flags ...string) {
	t.Helper()
	said, err := job.TryCli(append([]string{"--migrate", "--pid", fmt.Sprint(job.PID)}, flags...)...)
	if err == nil || !regexp.MustCompile(reason).MatchString(said) {
		t.Errorf("%v: %v, want %q: %s", flags, err, reason, said)
	}
}

// TestMigrateGoesBack: a program goes back to its GPU if the other one becomes full when it has
// just been stopped.
func TestMigrateGoesBack(t *testing.T) {
	daemon, job, want := movable(t, "soft:2,deterministic,memory=40MiB", "5000000", nil)
	gate := filepath.Join(t.TempDir(), "gate")
	daemon.Relaunch(ckpt.FailpointsVariable + "=unpack=until:" + gate)
	job.WaitLines(8)
	said := make(chan string, 1)
	go func() {
		text, err := job.TryCli("--migrate", "--pid", fmt.Sprint(job.PID), "--gpus", "1")
		said <- fmt.Sprint(text, err)
	}()
	job.WaitGone()
	daemon.LogContains("msg=step name=unpack") // the restore has been allowed, and stands at its gate
	holder := daemon.Job(t, harness.CompileC(t, true, harness.Workload("checkpoint", "count.c")), "6", "5000000", "10000")
	holder.Hold = true
	holder.Prepare = func(c *exec.Cmd) { c.Env = append(c.Env, "CUDA_VISIBLE_DEVICES=1") }
	holder.Start().WaitLines(1)
	if err := os.WriteFile(gate, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	text := <-said
	if !regexp.MustCompile(fmt.Sprintf("pid %d runs on where it was: .*cannot reserve", job.PID)).MatchString(text) {
		t.Errorf("it says: %s", text)
	}
	job.WaitLines(12)
	hasMemoryOn(t, daemon, 1, 0)
	holder.Kill()
	job.Detach()
	job.FinishLike(t, "went back", want, -1)
	noCopies(t, "/dev/shm")
}

// TestMigrateWithoutDaemon: if phosd dies while it saves a program that is to be moved, the program
// runs on where it was.
func TestMigrateWithoutDaemon(t *testing.T) {
	daemon, job, want := movable(t, "soft:2,deterministic", "20000", nil)
	for _, step := range []string{"cut", "end"} {
		daemon.Relaunch(ckpt.FailpointsVariable + "=" + step + "=kill")
		refuses(t, job, "unfinished work is undone, and programs keep running", "--gpus", "1")
		daemon.Relaunch()
		hasMemoryOn(t, daemon, 0)
		noCopies(t, "/dev/shm")
	}
	job.Migrate("1")
	hasMemoryOn(t, daemon, 1)
	job.FinishLike(t, "moved in the end", want, -1)
}

// TestMigrateIsKept: if the program can be restored nowhere, its copy is kept, and named.
func TestMigrateIsKept(t *testing.T) {
	daemon, job, want := movable(t, "soft:2,deterministic", "20000", nil)
	daemon.Relaunch(ckpt.FailpointsVariable + "=processes=error")
	job.WaitLines(8)
	dir := t.TempDir()
	said, err := job.TryCli("--migrate", "--pid", fmt.Sprint(job.PID), "--gpus", "1", "--dir", dir)
	found := regexp.MustCompile(`the program has ended, and is in (\S+): pos_cli --restore --dir (\S+)`).FindStringSubmatch(said)
	if err == nil || found == nil || found[1] != found[2] || filepath.Dir(found[1]) != dir {
		t.Fatalf("%v: %s", err, said)
	}
	job.WaitGone()
	daemon.Relaunch()
	job.Image = found[1]
	job.RestoreDetached("--gpus", "1")
	hasMemoryOn(t, daemon, 1)
	job.FinishLike(t, "restored", want, -1)
}
