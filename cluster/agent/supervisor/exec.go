package supervisor

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/phos-gpu/phos/cluster/agent/supervisor/process"
	"github.com/phos-gpu/phos/internal/linux/fdpass"
	"github.com/phos-gpu/phos/internal/linux/namespace"
	"github.com/phos-gpu/phos/internal/linux/proc"
	"github.com/phos-gpu/phos/internal/linux/procgroup"
)

// ExecOrder is a command that runs beside a process of the Spec: as its user, in a cgroup below the
// attempt's, in its namespaces. It is killed with all that it has started when it ends, when the
// process does, and when the agent closes the connection.
type ExecOrder struct {
	// Process is its index in the Spec.
	Process int `json:"process"`
	// Command has bytes, which need not be text.
	Command [][]byte `json:"argv"`
	// Restored is the root of the tree that stands for a process of the Spec which only follows it.
	// The command gets its environment and directory then; zero: those of the Spec.
	Restored proc.Identity `json:"restored,omitzero"`
	// Variables are added to the environment.
	Variables []string `json:"env,omitempty"`
	// Terminal says that the first standard stream is the controlling terminal.
	Terminal bool `json:"terminal,omitempty"`
}

// ExecEnd is how a command has ended.
type ExecEnd struct {
	Code   int `json:"code"`
	Signal int `json:"signal,omitempty"`
	// Orphaned says that a signal has ended it because its process had ended.
	Orphaned bool `json:"orphaned,omitempty"`
}

// execSignal is what the agent sends after the order.
type execSignal struct {
	Signal unix.Signal `json:"signal"`
}

// maxExecs is how many commands an attempt may have at once.
const maxExecs = 32

// execs are the commands of a supervisor.
type execs struct {
	// starting is held while one is started, because that changes the whole supervisor.
	starting sync.Mutex
	slots    chan struct{}
}

func newExecs() *execs { return &execs{slots: make(chan struct{}, maxExecs)} }

// execution is a command that runs.
type execution struct {
	order ExecOrder
	files []*os.File
	group *procgroup.Group
	pid   int
	// exited gets how it ended when it is reaped; reaped is closed then.
	exited syscall.WaitStatus
	reaped chan struct{}
}

// serveExec runs a command, and answers twice: when it is started, and when it has ended.
func (s *supervisor) serveExec(conn *carrier, order ExecOrder) {
	e := &execution{order: order, files: conn.take(), reaped: make(chan struct{})}
	err := s.startExec(e)
	fdpass.Close(e.files)
	answer := json.NewEncoder(conn.UnixConn)
	_ = answer.Encode(reply{Outcome: kinds.Outcome(err)}) // if the agent is gone, so is the reason to run
	if err != nil {
		return
	}
	defer func() { <-s.execs.slots }()
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		for {
			var m execSignal
			if conn.decode(&m) != nil {
				return
			}
			s.children.signalExec(e, m.Signal)
		}
	}()
	end := s.awaitExec(e, gone)
	s.removeExec(e)
	_ = answer.Encode(end)
}

// awaitExec waits until a command has ended, and ends it when its process does, or the agent is
// gone.
func (s *supervisor) awaitExec(e *execution, gone <-chan struct{}) (end ExecEnd) {
	process, over := make(chan struct{}), make(chan struct{})
	go func() {
		if _, ended := s.course.await(over, func(status *Status) bool {
			return status.Processes[e.order.Process].Exit != nil
		}); ended {
			close(process)
		}
	}()
	defer close(over)
	select {
	case <-e.reaped:
	case <-process:
	case <-gone:
	}
	if err := e.group.Kill(); err != nil {
		s.log.Error("exec not killed", "pid", e.pid, "error", err)
	}
	<-e.reaped
	end.Code = max(e.exited.ExitStatus(), 0)
	if e.exited.Signaled() {
		end.Signal = int(e.exited.Signal())
		status, _ := s.course.now()
		end.Orphaned = status.Processes[e.order.Process].Exit != nil
	}
	return end
}

// removeExec ends what a command has left.
func (s *supervisor) removeExec(e *execution) {
	for {
		look, cancel := context.WithTimeout(context.Background(), lookTime)
		err := e.group.KillAll(look)
		if err == nil {
			err = e.group.Remove(look)
		}
		cancel()
		if err == nil || s.course.state() == Ended {
			_ = e.group.Close() // nothing was written
			return
		}
		s.log.Warn("exec not removed", "pid", e.pid, "error", err)
	}
}

// signalExec sends a signal to the process group that a command began, as a terminal would.
func (c *children) signalExec(e *execution, number unix.Signal) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.execs[e.pid] == e { // later the number may be that of others
		_ = unix.Kill(-e.pid, number) // an unknown signal does nothing
	}
}

// startExec starts a command on a thread that lives as long as it: the kernel kills the command at
// the end of the thread.
func (s *supervisor) startExec(e *execution) error {
	like, err := s.likeOf(e)
	if err != nil {
		return err
	}
	select {
	case s.execs.slots <- struct{}{}:
	default:
		return fmt.Errorf("%w: %d commands run beside the processes already", ErrRefused, maxExecs)
	}
	if e.group, err = s.group.Child(fmt.Sprintf("exec.%08x", rand.Uint32())); err == nil {
		started := make(chan error)
		go func() {
			runtime.LockOSThread() // and never unlocked, so that the thread ends
			err := s.startOn(e, like)
			started <- err
			if err == nil {
				<-e.reaped
			}
		}()
		if err = <-started; err != nil {
			s.removeExec(e)
		}
	}
	if err != nil {
		<-s.execs.slots
	}
	return err
}

// likeOf returns what the command is executed as. The error is ErrProcess if its process does not
// run.
func (s *supervisor) likeOf(e *execution) (Process, error) {
	status, _ := s.course.now()
	i := e.order.Process
	switch {
	case i < 0 || i >= len(status.Processes):
		return Process{}, fmt.Errorf("%w: process %d", ErrProcess, i)
	case status.Processes[i].Exit != nil:
		return Process{}, fmt.Errorf("%w: process %d has ended", ErrProcess, i)
	case status.State != Running:
		return Process{}, fmt.Errorf("%w: process %d is %s", ErrProcess, i, status.State)
	case len(e.files) != 3:
		return Process{}, fmt.Errorf("%w: %d files for the standard streams", ErrInvalid, len(e.files))
	}
	like := s.order.Processes[i]
	if e.order.Restored.PID == 0 {
		e.order.Restored = status.Processes[i].Identity
	} else if err := s.restoredLike(e.order.Restored, &like); err != nil {
		return Process{}, err
	}
	like.Command = nil
	for _, word := range e.order.Command {
		like.Command = append(like.Command, string(word))
	}
	like.Environment = append(slices.Clone(like.Environment), e.order.Variables...)
	if err := like.Check(); err != nil {
		return Process{}, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	return like, nil
}

// restoredLike changes what the process of the Spec has to what a restored one has. Its name comes
// from a file that the user may write, so it must be one of the attempt.
func (s *supervisor) restoredLike(id proc.Identity, like *Process) error {
	pids, err := s.group.Processes()
	if err != nil {
		return err
	}
	if !slices.Contains(pids, id.PID) {
		return fmt.Errorf("%w: pid %d is not of this attempt", ErrProcess, id.PID)
	}
	block, err := os.ReadFile(proc.Path(id.PID, "environ"))
	if err == nil {
		like.Directory, err = os.Readlink(proc.Path(id.PID, "cwd"))
	}
	if err != nil {
		return fmt.Errorf("%w: pid %d: %w", ErrProcess, id.PID, err)
	}
	like.Environment = strings.Split(strings.TrimRight(string(block), "\x00"), "\x00")
	return id.Check()
}

// startOn starts a command. The thread is in other cgroups and namespaces for that time.
func (s *supervisor) startOn(e *execution, like Process) (err error) {
	s.execs.starting.Lock()
	defer s.execs.starting.Unlock()
	leave, err := s.enter()
	if err != nil {
		return err
	}
	home, err := proc.OpenOwnNamespace("mnt")
	if err != nil {
		return fmt.Errorf("%w: %w", err, leave())
	}
	defer home.Close()
	entered, err := s.startIn(e, &like)
	if entered { // the cgroups of the thread are in this process's own mount namespace
		if back := unix.Setns(int(home.Fd()), unix.CLONE_NEWNS); back != nil {
			s.log.Warn("thread stays in a mount namespace", "error", back)
		}
	}
	if left := leave(); left != nil {
		s.log.Warn("thread stays in a cgroup", "error", left)
	}
	return err
}

// startIn starts a command in the namespaces of its process. entered reports whether the thread has
// left its own.
func (s *supervisor) startIn(e *execution, like *Process) (entered bool, err error) {
	spaces, ownUser, err := namespace.Differing(e.order.Restored)
	if err != nil {
		return false, fmt.Errorf("%w: namespaces: %w", ErrProcess, err)
	}
	defer namespace.Close(spaces)
	switch {
	case ownUser:
		// Its other namespaces are what the user has made of them. Only the user itself, without any
		// right of root, may be there.
		if err := throughNsenter(like, e.order.Restored.PID, spaces); err != nil {
			return false, err
		}
	case len(spaces) > 0:
		// A program of root would trust files that may be others there.
		if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
			return false, fmt.Errorf("no new privileges: %w", err)
		}
		entered = true
		if err := namespace.Enter(spaces); err != nil {
			return entered, err
		}
	}
	return entered, s.fork(e, like)
}

// throughNsenter lets the user enter the user namespace of a process, and then others of it.
func throughNsenter(p *Process, pid int, others []*os.File) error {
	programs := (&Process{Command: []string{"nsenter"}}).Programs()
	if !filepath.IsAbs(programs[0]) {
		return fmt.Errorf("%w: the process has its own user namespace, which needs nsenter of util-linux here", ErrRefused)
	}
	enter := []string{programs[0], "--target", strconv.Itoa(pid), "--wd", "--preserve-credentials", "--user"}
	for _, file := range others {
		kind := filepath.Base(file.Name())
		enter = append(enter, "--"+strings.Replace(kind, "mnt", "mount", 1))
	}
	p.Command = slices.Concat(enter, []string{"--"}, p.Command)
	return nil
}

// fork starts a command, which cannot be reaped before it is known.
func (s *supervisor) fork(e *execution, like *Process) error {
	// Children inherit it, and those of a command may be started at once.
	if err := setOOMScore(0); err != nil {
		return fmt.Errorf("OOM score: %w", err)
	}
	defer func() {
		if err := setOOMScore(neverKilled); err != nil {
			s.log.Warn("OOM score not lowered", "error", err)
		}
	}()
	s.children.mu.Lock()
	defer s.children.mu.Unlock()
	how := process.How{Group: e.group, Terminal: e.order.Terminal}
	for _, file := range e.files {
		how.Files = append(how.Files, file.Fd())
	}
	pid, err := like.Execute(how)
	if err != nil {
		return err
	}
	e.pid = pid
	s.children.execs[pid] = e
	return nil
}
