package hosts

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/phos-gpu/phos/tests/harness"
)

// Daemon is a process in the background of a host, with a log that outlives it. It has a cgroup of
// its own, named after it, which its children stay in.
type Daemon struct {
	Name string
	// Arguments are the command line. Environment is added to that of a login. Prepare, if set, may
	// change the command before it starts. All may be changed between two Starts.
	Arguments, Environment []string
	Prepare                func(*Command)
	// Ready, if set, is called again and again after a start until it returns true.
	Ready func() bool
	// ReadyFD says that the daemon writes "ready" to the descriptor that is named by its flag
	// --ready-fd, which Start adds.
	ReadyFD bool

	host    *Host
	command *Command
	ended   chan struct{}
	failure error // how it ended
}

// Daemon starts a daemon and returns when it is ready.
func (h *Host) Daemon(daemon Daemon) *Daemon {
	h.t.Helper()
	d := &daemon
	d.host = h
	h.mu.Lock()
	h.daemons = append(h.daemons, d)
	h.mu.Unlock()
	d.Start()
	return d
}

// Start starts a command in the background. Its output is shown if the test fails.
func (h *Host) Start(name string, arguments ...string) *Daemon {
	h.t.Helper()
	return h.Daemon(Daemon{Name: name, Arguments: arguments})
}

// Start starts the daemon again, after its end or that of its host, and returns when it is ready.
func (d *Daemon) Start() {
	d.host.t.Helper()
	if err := d.start(); err != nil {
		d.host.t.Fatalf("start %s on %s: %v\n%s", d.Name, d.host.Name, err, harness.Tail(d.LogText()))
	}
}

func (d *Daemon) start() error {
	if d.Alive() {
		return errors.New("it is running")
	}
	log, err := d.host.openLog(d.Name)
	if err != nil {
		return err
	}
	defer log.Close()
	command := d.host.Command(context.Background(), d.Arguments...)
	command.group, command.Stdout, command.Stderr = d.Name, log, log
	command.Env = append(command.Env, d.Environment...)
	ready, told, err := d.readyPipe(command)
	if err != nil {
		return err
	}
	defer ready.Close()
	if d.Prepare != nil {
		d.Prepare(command)
	}
	err = command.Start()
	told.Close()
	if err != nil {
		return err
	}
	d.command, d.ended = command, make(chan struct{})
	go func(ended chan struct{}) { d.failure = command.Wait(); close(ended) }(d.ended)
	return d.awaitReady(ready)
}

// readyPipe gives the command the pipe for its --ready-fd.
func (d *Daemon) readyPipe(command *Command) (ready, told *os.File, err error) {
	ready, told, err = os.Pipe()
	if err == nil && d.ReadyFD {
		command.ExtraFiles = []*os.File{told}
		command.Args = append(command.Args, "--ready-fd=3")
	}
	return ready, told, err
}

// awaitReady waits until the daemon is ready.
func (d *Daemon) awaitReady(pipe *os.File) error {
	if d.ReadyFD {
		line, err := harness.AwaitReady(pipe)
		if err != nil {
			return fmt.Errorf("%w: %q", err, line)
		}
	}
	for start := time.Now(); d.Ready != nil && !d.Ready(); time.Sleep(5 * time.Millisecond) {
		select {
		case <-d.ended:
			return fmt.Errorf("it ended before it was ready: %w", d.failure)
		default:
		}
		if time.Since(start) > harness.Patience {
			return errors.New("it is not ready in time")
		}
	}
	return nil
}

// Alive reports whether the daemon's process exists.
func (d *Daemon) Alive() bool {
	if d.ended == nil {
		return false
	}
	select {
	case <-d.ended:
		return false
	default:
		return true
	}
}

// PID returns the daemon's pid as the host sees it.
func (d *Daemon) PID() int {
	d.host.t.Helper()
	return d.command.PID()
}

// OuterPID returns the daemon's pid as the test sees it.
func (d *Daemon) OuterPID() int { return d.command.Process.Pid }

// Signal sends the daemon a signal. It does nothing if the daemon has ended.
func (d *Daemon) Signal(signal syscall.Signal) {
	d.host.t.Helper()
	if err := d.command.Process.Signal(signal); err != nil && !errors.Is(err, os.ErrProcessDone) {
		d.host.t.Fatalf("signal %s on %s: %v", d.Name, d.host.Name, err)
	}
}

// Kill kills the daemon's process, and waits for its end. Its children go on.
func (d *Daemon) Kill() {
	d.host.t.Helper()
	d.Signal(syscall.SIGKILL)
	_ = d.Await()
}

// Await waits until the daemon ends, and returns how.
func (d *Daemon) Await() error {
	d.host.t.Helper()
	select {
	case <-d.ended:
		return d.failure
	case <-time.After(3 * harness.Patience):
		d.host.t.Fatalf("%s on %s does not end\n%s", d.Name, d.host.Name, harness.Tail(d.LogText()))
		return nil
	}
}

// LogText returns what the daemon, and those before it of its name, have written.
func (d *Daemon) LogText() string { return d.host.logText(d.Name) }

// openLog opens the file for the output of a process of the host, which is not in the host.
func (h *Host) openLog(name string) (*os.File, error) {
	return os.OpenFile(h.logFile(name), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
}

func (h *Host) logFile(name string) string {
	return filepath.Join(h.fleet.logs(), h.Name+"-"+name+".log")
}

// logText returns what has been written to such a file; nothing if it does not exist.
func (h *Host) logText(name string) string {
	text, _ := os.ReadFile(h.logFile(name))
	return string(text)
}

// showLogs shows the ends of the logs of a failed test, and keeps them where such logs are kept.
func (h *Host) showLogs() {
	h.t.Helper()
	h.mu.Lock()
	names := []string{"init"}
	for _, daemon := range h.daemons {
		names = append(names, daemon.Name)
	}
	h.mu.Unlock()
	for _, name := range names {
		if text := h.logText(name); text != "" {
			h.t.Logf("log of %s on %s:\n%s", name, h.Name, harness.Tail(text))
			harness.KeepLog(h.t, h.Name+"-"+name, text)
		}
	}
}
