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

// start is a phosd that can save programs.
func start(t *testing.T, arguments ...string) *harness.Daemon {
	t.Helper()
	_, err := harness.CRIU()
	harness.Need(t, "criu", err)
	harness.Need(t, "python", missing(python))
	return harness.Start(t, arguments...)
}

// python is the interpreter itself: a shim in front of it would be one more process.
const python = "/usr/bin/python3"

func missing(path string) error {
	_, err := os.Stat(path)
	return err
}

// asked is a program that does what it is asked on its standard input, or pos_cli in front of it.
type asked struct {
	t       testing.TB
	command *exec.Cmd
	in      io.WriteCloser
	out     *bufio.Reader
	// pid is the program's.
	pid int
	// said is what came on standard error.
	said *heard
}

// heard is text that grows.
type heard struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (h *heard) Write(text []byte) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.text.Write(text)
}

func (h *heard) String() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.text.String()
}

// ask starts the program that tests/workloads/everyday/asked.py is, as the command that it is
// given.
func ask(t testing.TB, command *exec.Cmd) *asked {
	t.Helper()
	a := launch(t, command)
	a.pid = command.Process.Pid
	a.hears("ready")
	return a
}

func launch(t testing.TB, command *exec.Cmd) *asked {
	t.Helper()
	a := &asked{t: t, command: command, said: &heard{}}
	var err error
	if a.in, err = command.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	a.out = bufio.NewReader(out)
	// A file of the test's own would be a pipe in between, with a process that holds its end.
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

// program is asked.py under a daemon. Its errors go to a file.
func program(d *harness.Daemon, arguments ...string) *exec.Cmd {
	command := exec.Command(python, append([]string{"-u", harness.Workload("everyday", "asked.py")}, arguments...)...)
	command.Env, command.Dir = d.Environment(), "/"
	command.Stderr = os.Stderr
	command.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	return command
}

// hears waits for a line.
func (a *asked) hears(want string) {
	a.t.Helper()
	if got := a.line(); got != want {
		a.t.Fatalf("pid %d says %q instead of %q; %s", a.pid, got, want, a.said)
	}
}

func (a *asked) line() string {
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
			a.t.Fatalf("pid %d says %q: %v; %s", a.pid, r.text, r.err, a.said)
		}
		return strings.TrimSpace(r.text)
	case <-time.After(harness.Patience):
		a.t.Fatalf("pid %d says nothing; %s", a.pid, a.said)
	}
	return ""
}

// does has the program take so many steps, and wants that it has taken so many by then.
func (a *asked) does(steps, total int) {
	a.t.Helper()
	if _, err := fmt.Fprintln(a.in, steps); err != nil {
		a.t.Fatal(err)
	}
	if got, _, _ := strings.Cut(a.line(), " "); got != strconv.Itoa(total) {
		a.t.Fatalf("pid %d has taken %s steps instead of %d", a.pid, got, total)
	}
}

// ends has the program, or pos_cli for it, end with a status.
func (a *asked) ends(status int) {
	a.t.Helper()
	if _, err := fmt.Fprintln(a.in, "end", status); err != nil {
		a.t.Fatal(err)
	}
	if got := a.await(); got != status {
		a.t.Fatalf("pid %d ends with %d instead of %d; %s", a.pid, got, status, a.said)
	}
	a.pid = 0
}

func (a *asked) await() int {
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
		a.t.Fatalf("pid %d does not end; %s", a.pid, a.said)
	}
	if status, ok := a.command.ProcessState.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return 128 + int(status.Signal())
	}
	return a.command.ProcessState.ExitCode()
}

// image is a directory for checkpoints, which users may enter.
func image(t testing.TB) string {
	t.Helper()
	return filepath.Join(open(t), "image")
}

// open is a temporary directory that all users may enter.
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

// cli runs pos_cli to its end.
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
	command.WaitDelay = harness.Patience / 10 // what it has started may hold its output
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

func (a *asked) preDump(d *harness.Daemon, dir string) {
	a.t.Helper()
	mustCLI(a.t, d, "--pre-dump", "--dir", dir, "--pid", strconv.Itoa(a.pid))
}

// kill ends a program as a failure would.
func (a *asked) kill() {
	a.t.Helper()
	if err := syscall.Kill(a.pid, syscall.SIGKILL); err != nil {
		a.t.Fatal(err)
	}
	a.await()
	a.pid = 0
}

// restore brings a program back, with pos_cli in front of it.
func restore(t testing.TB, d *harness.Daemon, dir string, flags ...string) *asked {
	t.Helper()
	return restoreBy(t, d, d.Command(append([]string{"--restore", "--dir", dir}, flags...)...))
}

func restoreBy(t testing.TB, d *harness.Daemon, command *exec.Cmd) *asked {
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
