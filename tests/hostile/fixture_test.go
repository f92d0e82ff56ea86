package hostile

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/phos-gpu/phos/tests/harness"
)

// user is an ordinary user with a home directory.
type user struct {
	t    *testing.T
	uid  uint32
	home string
}

// newUser makes a user with an empty home directory that other users can look into.
func newUser(t *testing.T, uid uint32) *user {
	t.Helper()
	dir, err := os.MkdirTemp("/var/tmp", "phos-hostile-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	for _, err := range []error{os.Chmod(dir, 0o755), os.Chown(dir, int(uid), int(uid))} {
		if err != nil {
			t.Fatal(err)
		}
	}
	return &user{t, uid, dir}
}

// alice and bob are the users of every test.
func alice(t *testing.T) *user { return newUser(t, 61241) }
func bob(t *testing.T) *user   { return newUser(t, 61242) }

// start starts phosd with CRIU.
func start(t *testing.T, arguments ...string) *harness.Daemon {
	t.Helper()
	_, err := harness.CRIU()
	harness.Need(t, "criu", err)
	_, err = exec.LookPath("python3")
	harness.Need(t, "python", err)
	return harness.Start(t, arguments...)
}

// as makes a command run as the user, in the home directory.
func (u *user) as(command *exec.Cmd) *exec.Cmd {
	command.Dir = u.home
	command.SysProcAttr = &syscall.SysProcAttr{
		Credential: &syscall.Credential{Uid: u.uid, Gid: u.uid, Groups: []uint32{u.uid + 10}},
		Setsid:     true,
	}
	return command
}

// python returns a command of the user that runs a program text, under phos.
func (u *user) python(d *harness.Daemon, text string, arguments ...string) *exec.Cmd {
	command := exec.Command("/usr/bin/python3", append([]string{"-c", text}, arguments...)...)
	command.Env = append(d.Environment(), "HOME="+u.home)
	return u.as(command)
}

// file returns the path of a file in the home directory.
func (u *user) file(name string) string { return filepath.Join(u.home, name) }

// run runs a command to its end, for at most harness.Patience.
func run(t *testing.T, command *exec.Cmd) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), harness.Patience)
	defer cancel()
	var said bytes.Buffer
	command.Stdout, command.Stderr = &said, &said
	command.WaitDelay = time.Second
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	stop := context.AfterFunc(ctx, func() { _ = command.Process.Kill() })
	defer stop()
	err := command.Wait()
	if ctx.Err() != nil {
		t.Fatalf("%v: no end after %v: %s", command.Args, harness.Patience, said.String())
	}
	return said.String(), err
}

// background starts a command and kills it at the end of the test. Children of it that have its
// output may live on, and what they print counts, too; a container lives longer than the test.
func background(t *testing.T, command *exec.Cmd) *exec.Cmd {
	t.Helper()
	command.Stderr = os.Stderr
	endOutput := func() {}
	if _, ready := command.Stdout.(*os.File); command.Stdout != nil && !ready {
		var write *os.File
		write, endOutput = collect(t, command.Stdout)
		defer write.Close()
		command.Stdout = write
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() { defer close(ended); _ = command.Wait() }()
	t.Cleanup(func() { _ = command.Process.Kill(); <-ended; endOutput() })
	return command
}

// collect returns a pipe for a command's output, whose content is copied until end is called. With
// a pipe of package exec, the command's Wait would wait for its children, too.
func collect(t *testing.T, to io.Writer) (write *os.File, end func()) {
	t.Helper()
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	copied := make(chan struct{})
	go func() { defer close(copied); _, _ = io.Copy(to, read) }()
	return write, func() { _ = read.Close(); <-copied }
}

// cli returns a pos_cli of the user.
func (u *user) cli(d *harness.Daemon, arguments ...string) *exec.Cmd {
	command := d.Command(arguments...)
	return u.as(command)
}

// mustCLI runs a pos_cli of the user, which must succeed.
func (u *user) mustCLI(d *harness.Daemon, arguments ...string) string {
	u.t.Helper()
	text, err := run(u.t, u.cli(d, arguments...))
	if err != nil {
		u.t.Fatalf("pos_cli %v: %v: %s", arguments, err, text)
	}
	return text
}

// mustFail runs a pos_cli of the user, which must fail and say each of the texts.
func (u *user) mustFail(d *harness.Daemon, arguments []string, says ...string) {
	u.t.Helper()
	text, err := run(u.t, u.cli(d, arguments...))
	if err == nil {
		u.t.Errorf("pos_cli %v succeeded: %s", arguments, text)
	}
	for _, want := range says {
		if !strings.Contains(text, want) {
			u.t.Errorf("pos_cli %v: %q, want %q in it", arguments, text, want)
		}
	}
}

// pid returns a command's pid for a flag.
func pid(command *exec.Cmd) string { return strconv.Itoa(command.Process.Pid) }

// waitFor waits until something holds.
func waitFor(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(harness.Patience); !holds(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("timeout: %s", what)
		}
	}
}

// killRestored kills the programs that run, as a detached one does after the test.
func killRestored(d *harness.Daemon) {
	for _, program := range d.Status().GetPrograms() {
		_ = syscall.Kill(int(program.GetPid()), syscall.SIGKILL)
	}
}

// exists reports whether a file exists.
func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// owner returns the owner of a file, and its mode.
func owner(t *testing.T, path string) string {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	stat := info.Sys().(*syscall.Stat_t)
	return fmt.Sprint(stat.Uid, ":", stat.Gid, " ", info.Mode())
}
