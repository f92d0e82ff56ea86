package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// attendant is the argument by which this program starts itself as an attendant.
const attendant = "attend"

// withAttendant makes a command run under an attendant, which removes everything that the command
// leaves when it exits or is cut off.
func withAttendant(command *exec.Cmd, p places) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	command.Args = slices.Concat([]string{self, attendant}, p.arguments(), []string{command.Path}, command.Args[1:])
	command.Env = append(command.Env, p.environment()...)
	command.Path = self
	command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: unix.SIGTERM}
	command.Cancel = func() error { return command.Process.Signal(unix.SIGTERM) }
	command.WaitDelay = time.Minute
	return nil
}

// attend gets the places and the program with its arguments. It runs the program until it exits, or
// until the attendant is told to end, and returns the exit status. It is a subreaper: orphans
// become its children, so it finds and reaps daemons that have outlived their parents.
func attend(arguments []string) (int, error) {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return 1, fmt.Errorf("become the parent of orphans: %w", err)
	}
	p := places{arguments[0], arguments[1], arguments[2]}
	arguments = arguments[3:]
	// A terminal's interrupt reaches this process too; its parent decides when to end.
	told := make(chan os.Signal, 1)
	signal.Notify(told, unix.SIGINT, unix.SIGTERM, unix.SIGHUP)
	child, err := syscall.ForkExec(arguments[0], arguments, &syscall.ProcAttr{
		Env: os.Environ(), Files: []uintptr{0, 1, 2}, Sys: &syscall.SysProcAttr{Setpgid: true},
	})
	if err != nil {
		return 1, fmt.Errorf("start %s: %w", arguments[0], err)
	}
	go func() {
		for got := range told {
			if got != unix.SIGINT {
				_ = unix.Kill(child, unix.SIGKILL)
			}
		}
	}()
	defer p.clean()
	for {
		var status unix.WaitStatus
		pid, err := unix.Wait4(-1, &status, 0, nil)
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return 1, fmt.Errorf("wait for %s: %w", arguments[0], err)
		case pid == child && status.Signaled():
			return 128 + int(status.Signal()), nil
		case pid == child:
			return status.ExitStatus(), nil
		}
	}
}
