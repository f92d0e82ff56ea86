package background

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// Program is a daemon.
type Program struct {
	// Name is that of the executable file.
	Name string
	// Log receives its standard error.
	Log string
	// Record is the file with its process; empty: none is kept.
	Record string
}

// Find looks beside this executable first, so that a build tree works without an installation.
func (p Program) Find() (string, error) {
	self, err := os.Executable()
	if err != nil {
		return "", err
	}
	if self, err = filepath.EvalSymlinks(self); err != nil {
		return "", err
	}
	beside := filepath.Join(filepath.Dir(self), p.Name)
	if info, err := os.Stat(beside); err == nil && info.Mode().IsRegular() {
		return beside, nil
	}
	found, err := exec.LookPath(p.Name)
	if err != nil {
		return "", fmt.Errorf("%s is neither at %s nor in PATH", p.Name, beside)
	}
	return filepath.Abs(found)
}

// Start starts the daemon and waits until it serves or has ended. It returns the line that the
// daemon has said. When ctx ends before that, the daemon is killed.
func (p Program) Start(ctx context.Context, path string, arguments []string) (line string, err error) {
	log, err := os.OpenFile(p.Log, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o640)
	if err != nil {
		return "", fmt.Errorf("log of %s: %w", p.Name, err)
	}
	defer log.Close()
	ready, readyEnd, err := os.Pipe()
	if err != nil {
		return "", err
	}
	defer ready.Close()
	command := exec.Command(path, arguments...)
	command.Stderr, command.ExtraFiles, command.Dir = log, []*os.File{readyEnd}, "/"
	command.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	// NOTIFY_SOCKET belongs to this command's unit, not to the daemon.
	command.Env = slices.DeleteFunc(
		os.Environ(),
		func(variable string) bool { return strings.HasPrefix(variable, "NOTIFY_SOCKET=") },
	)
	err = command.Start()
	_ = readyEnd.Close()
	if err != nil {
		return "", fmt.Errorf("start %s: %w", p.Name, err)
	}
	stop := context.AfterFunc(ctx, func() { _ = command.Process.Kill() })
	defer stop()
	if line, err = bufio.NewReader(ready).ReadString('\n'); err != nil {
		if line == "" {
			line = p.Name + " exited: " + exitText(command.Wait())
		}
		return "", fmt.Errorf("%s (its log is %s)", line, p.Log)
	}
	line = strings.TrimSuffix(line, "\n")
	if p.Record != "" && strings.HasPrefix(line, "ready\t") {
		err = p.record(command.Process.Pid)
	}
	return line, err
}

// ReadyFD is the argument that names the pipe of Start.
const ReadyFD = "--ready-fd=3"

// exitText returns the text of a process's exit error, which may be nil.
func exitText(err error) string {
	if err == nil {
		return "no error was reported"
	}
	return err.Error()
}

// ErrNotRunning means that no daemon is recorded that runs.
var ErrNotRunning = errors.New("is not running")
