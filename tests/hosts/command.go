package hosts

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"

	"github.com/phos-gpu/phos/internal/linux/proc"
	"github.com/phos-gpu/phos/tests/harness"
)

// Command is a command on a host. It is used like the exec.Cmd in it: Process is the process on the
// host itself, by the pid that the test sees. When the host is killed, it is waited for.
type Command struct {
	*exec.Cmd
	host *Host
	// group is the cgroup in which it starts, below that of the host.
	group string
	// started is closed when Start has returned. wait is nil until it has begun.
	started chan struct{}
	wait    func() error
}

// Command prepares a command, which runs as root in a session of its own, with the environment of a
// login. It is killed when ctx is done.
func (h *Host) Command(ctx context.Context, arguments ...string) *Command {
	command := exec.CommandContext(ctx, arguments[0], arguments[1:]...)
	command.Env = []string{
		"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:" + h.fleet.programs, "HOME=/root", "LANG=C.UTF-8",
		"XDG_CONFIG_HOME=/run/config", // the home is that of the machine, with its user's login
	}
	command.Dir, command.WaitDelay = "/", harness.Patience/10
	// A session whose leader is outside the pid namespace cannot be saved.
	command.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	return &Command{Cmd: command, host: h, group: first, started: make(chan struct{})}
}

// Program is Command for a program that uses phosd's GPUs.
func (h *Host) Program(ctx context.Context, arguments ...string) *Command {
	command := h.Command(ctx, arguments...)
	command.Env = append(command.Env, harness.ProgramVariables()...)
	return command
}

// As lets the command run as another user.
func (c *Command) As(uid, gid uint32, groups ...uint32) *Command {
	c.SysProcAttr.Credential = &syscall.Credential{Uid: uid, Gid: gid, Groups: groups}
	return c
}

// Start starts the command on the host.
func (c *Command) Start() error {
	c.host.starting.RLock()
	defer c.host.starting.RUnlock()
	init, group, err := c.host.admit(c)
	if err != nil {
		return err
	}
	defer close(c.started)
	defer group.Close()
	if init.timed {
		c.joinTime()
	}
	c.SysProcAttr.UseCgroupFD, c.SysProcAttr.CgroupFD = true, int(group.Fd())
	if err := init.startProcess(c.Cmd.Start); err != nil {
		c.host.forget(c)
		return err
	}
	return nil
}

// admit notes that a command starts, and returns the host's first process and the command's cgroup.
func (h *Host) admit(c *Command) (*initProcess, *os.File, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.init == nil {
		return nil, nil, fmt.Errorf("%s: %w", h.Name, ErrOff)
	}
	if h.frozen {
		return nil, nil, fmt.Errorf("%s: %w", h.Name, ErrFrozen)
	}
	path := filepath.Join(h.groups.unified, c.group)
	if err := os.MkdirAll(path, 0o755); err != nil {
		return nil, nil, err
	}
	group, err := os.Open(path)
	if err != nil {
		return nil, nil, err
	}
	c.wait = sync.OnceValue(c.Cmd.Wait)
	h.running[c] = struct{}{}
	return h.init, group, nil
}

// forget notes that a command has ended.
func (h *Host) forget(c *Command) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.running, c)
}

// joinTime makes the command enter the host's time namespace before it becomes what it is. A thread
// of this process cannot enter one.
func (c *Command) joinTime() {
	prefix := []string{"nsenter", "--time=/proc/1/ns/time_for_children"}
	if user := c.SysProcAttr.Credential; user != nil { // only root can enter
		c.SysProcAttr.Credential = nil
		prefix = append(prefix, "setpriv", fmt.Sprint("--reuid=", user.Uid), fmt.Sprint("--regid=", user.Gid))
		if len(user.Groups) == 0 {
			prefix = append(prefix, "--clear-groups")
		} else {
			prefix = append(prefix, "--groups="+strings.Trim(strings.ReplaceAll(fmt.Sprint(user.Groups), " ", ","), "[]"))
		}
	}
	c.Args = slices.Concat(prefix, []string{c.Path}, c.Args[1:])
	path, err := exec.LookPath("nsenter")
	c.Path, c.Err = path, errors.Join(c.Err, err)
}

// Wait waits for the command's end. It may be called more than once.
func (c *Command) Wait() error {
	if c.wait == nil {
		return errors.New("the command was not started")
	}
	defer c.host.forget(c)
	return c.wait()
}

// reap waits for the end of a command of a host that has been killed: the host's first process ends
// when all others have been waited for.
func (c *Command) reap() {
	<-c.started
	_ = c.wait()
}

// Run starts the command and waits for its end.
func (c *Command) Run() error {
	if err := c.Start(); err != nil {
		return err
	}
	return c.Wait()
}

// Output runs the command and returns its standard output.
func (c *Command) Output() ([]byte, error) {
	var said bytes.Buffer
	c.Stdout = &said
	err := c.Run()
	return said.Bytes(), err
}

// CombinedOutput runs the command and returns its standard output and error.
func (c *Command) CombinedOutput() ([]byte, error) {
	var said bytes.Buffer
	c.Stdout, c.Stderr = &said, &said
	err := c.Run()
	return said.Bytes(), err
}

// PID returns the pid that the host's processes see. The command must run.
func (c *Command) PID() int {
	c.host.t.Helper()
	status, err := proc.ReadStatus(c.Process.Pid)
	if err != nil {
		c.host.t.Fatalf("%v on %s: %v", c.Args, c.host.Name, err)
	}
	return status.InnermostPID()
}

// Run runs a command as root, which must succeed, and returns its output.
func (h *Host) Run(arguments ...string) string {
	h.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), harness.Patience)
	defer cancel()
	output, err := h.Command(ctx, arguments...).CombinedOutput()
	if err != nil {
		h.t.Fatalf("%v on %s: %v\n%s", arguments, h.Name, err, output)
	}
	return string(output)
}

// Shell runs a script of bash as root, which must succeed, and returns its output.
func (h *Host) Shell(script string) string {
	h.t.Helper()
	return h.Run("bash", "-euo", "pipefail", "-c", script)
}
