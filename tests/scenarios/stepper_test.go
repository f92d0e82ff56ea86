package scenarios

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/phos-gpu/phos/tests/harness"
)

// start starts a phosd that can save programs.
func start(t *testing.T, arguments ...string) *harness.Daemon {
	t.Helper()
	_, err := harness.CRIU()
	harness.Need(t, "criu", err)
	harness.Need(t, "python", missing(python))
	return harness.Start(t, arguments...)
}

// python is the interpreter itself. A wrapper would be one more process.
const python = "/usr/bin/python3"

func missing(path string) error {
	_, err := os.Stat(path)
	return err
}

// stepper is a program that takes commands on its standard input, or the pos_cli that restored it.
type stepper struct {
	t       testing.TB
	command *exec.Cmd
	in      io.WriteCloser
	out     *bufio.Reader
	// pid is the pid of the program.
	pid int
	// said collects standard error.
	said *syncBuffer
}

// syncBuffer is a buffer that goroutines can share.
type syncBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (h *syncBuffer) Write(text []byte) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.text.Write(text)
}

func (h *syncBuffer) String() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.text.String()
}

// stepperCommand starts a command that runs tests/workloads/everyday/asked.py.
func stepperCommand(t testing.TB, command *exec.Cmd) *stepper {
	t.Helper()
	a := launch(t, command)
	a.pid = command.Process.Pid
	a.expect("ready")
	return a
}

// launch starts a command with pipes for its input and output.
func launch(t testing.TB, command *exec.Cmd) *stepper {
	t.Helper()
	a := &stepper{t: t, command: command, said: &syncBuffer{}}
	var err error
	if a.in, err = command.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	a.out = bufio.NewReader(out)
	// A writer that is not an *os.File would add a pipe and a process that holds its end.
	if command.Stderr == nil {
		command.Stderr = a.said
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if a.pid != 0 && t.Failed() {
			_ = syscall.Kill(a.pid, syscall.SIGKILL)
		}
		_ = command.Process.Kill()
		a.in.Close()
	})
	return a
}

// program returns a command that runs asked.py under a daemon. Its errors go to a file.
func program(d *harness.Daemon, arguments ...string) *exec.Cmd {
	command := exec.Command(python, append([]string{"-u", harness.Workload("everyday", "asked.py")}, arguments...)...)
	command.Env, command.Dir = d.Environment(), "/"
	command.Stderr = os.Stderr
	command.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	return command
}

// expect waits for a line and compares it.
func (a *stepper) expect(want string) {
	a.t.Helper()
	if got := a.line(); got != want {
		a.t.Fatalf("pid %d printed %q, want %q; %s", a.pid, got, want, a.said)
	}
}

func (a *stepper) line() string {
	a.t.Helper()
	type result struct {
		text string
		err  error
	}
	done := make(chan result, 1)
	go func() {
		text, err := a.out.ReadString('\n')
		done <- result{text, err}
	}()
	select {
	case r := <-done:
		if r.err != nil {
			a.t.Fatalf("pid %d printed %q: %v; %s", a.pid, r.text, r.err, a.said)
		}
		return strings.TrimSpace(r.text)
	case <-time.After(harness.Patience):
		a.t.Fatalf("pid %d printed no line in time; %s", a.pid, a.said)
	}
	return ""
}

// step lets the program run some steps, and checks the total number of its steps.
func (a *stepper) step(steps, total int) {
	a.t.Helper()
	if _, err := fmt.Fprintln(a.in, steps); err != nil {
		a.t.Fatal(err)
	}
	if got, _, _ := strings.Cut(a.line(), " "); got != strconv.Itoa(total) {
		a.t.Fatalf("pid %d has run %s steps, want %d", a.pid, got, total)
	}
}

// finish ends the program, or the pos_cli that waits for it, and checks the exit status.
func (a *stepper) finish(status int) {
	a.t.Helper()
	if _, err := fmt.Fprintln(a.in, "end", status); err != nil {
		a.t.Fatal(err)
	}
	if got := a.await(); got != status {
		a.t.Fatalf("pid %d exited with %d, want %d; %s", a.pid, got, status, a.said)
	}
	a.pid = 0
}

func (a *stepper) await() int {
	a.t.Helper()
	done := make(chan error, 1)
	go func() { done <- a.command.Wait() }()
	select {
	case err := <-done:
		var exit *exec.ExitError
		if err != nil && !errors.As(err, &exit) {
			a.t.Fatal(err)
		}
	case <-time.After(harness.Patience):
		a.t.Fatalf("pid %d did not exit in time; %s", a.pid, a.said)
	}
	if status, ok := a.command.ProcessState.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return 128 + int(status.Signal())
	}
	return a.command.ProcessState.ExitCode()
}

// image returns a directory for checkpoints that all users may enter.
func image(t testing.TB) string {
	t.Helper()
	return filepath.Join(open(t), "image")
}

// open returns a temporary directory that all users may enter.
func open(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "phos-everyday-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

// cli runs pos_cli until it exits.
func cli(t testing.TB, d *harness.Daemon, arguments ...string) (string, error) {
	t.Helper()
	return run(t, d.Command(arguments...))
}

func run(t testing.TB, command *exec.Cmd) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 3*harness.Patience)
	defer cancel()
	stop := context.AfterFunc(ctx, func() { _ = command.Process.Kill() })
	defer stop()
	command.WaitDelay = harness.Patience / 10 // child processes may hold its output open
	text, err := command.CombinedOutput()
	return string(text), err
}

func mustCLI(t testing.TB, d *harness.Daemon, arguments ...string) string {
	t.Helper()
	text, err := cli(t, d, arguments...)
	if err != nil {
		t.Fatalf("pos_cli %v: %v\n%s", arguments, err, text)
	}
	return text
}

func (a *stepper) preDump(d *harness.Daemon, dir string) {
	a.t.Helper()
	mustCLI(a.t, d, "--pre-dump", "--dir", dir, "--pid", strconv.Itoa(a.pid))
}

// kill sends SIGKILL to the program.
func (a *stepper) kill() {
	a.t.Helper()
	if err := syscall.Kill(a.pid, syscall.SIGKILL); err != nil {
		a.t.Fatal(err)
	}
	a.await()
	a.pid = 0
}

// restore restores a program with a pos_cli that waits for it.
func restore(t testing.TB, d *harness.Daemon, dir string, flags ...string) *stepper {
	t.Helper()
	return restoreBy(t, d, d.Command(append([]string{"--restore", "--dir", dir}, flags...)...))
}

// restoreBy runs a command that restores a program, and waits until the program runs.
func restoreBy(t testing.TB, d *harness.Daemon, command *exec.Cmd) *stepper {
	t.Helper()
	a := launch(t, command)
	d.Eventually("it runs again", func() bool {
		if found := runsAgain.FindStringSubmatch(a.said.String()); found != nil {
			a.pid, _ = strconv.Atoi(found[1])
		}
		if errors.Is(unix.Kill(command.Process.Pid, 0), unix.ESRCH) || zombie(command.Process.Pid) {
			t.Fatalf("%v: %s", command.Args, a.said)
		}
		return a.pid != 0
	})
	return a
}

var runsAgain = regexp.MustCompile(`pid (\d+) runs again`)

func zombie(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return true
	}
	_, rest, _ := strings.Cut(string(stat[bytes.LastIndexByte(stat, ')'):]), " ")
	return rest == "" || rest[0] == 'Z' || rest[0] == 'X'
}
