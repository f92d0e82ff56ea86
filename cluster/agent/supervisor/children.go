package supervisor

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/phos-gpu/phos/cluster/agent/supervisor/process"
	"github.com/phos-gpu/phos/cluster/launch"
	"github.com/phos-gpu/phos/internal/linux/proc"
)

// children are the processes of the Spec as this process's children.
type children struct {
	mu sync.Mutex // guards running, execs and trunk: a pid there is that of the process until it is reaped
	// running has the index of each process by its pid, execs the commands beside them.
	running map[int]int
	execs   map[int]*execution
	// started is closed after the last process was started, or will not be.
	started chan struct{}
	// trunk is the pid of the trunk; 0: there is none. trunkStarted is closed when it has started all
	// that it starts, and trunkEnded gets how it has ended.
	trunk        int
	trunkStarted chan struct{}
	trunkEnded   chan syscall.WaitStatus
}

func newChildren() *children {
	return &children{
		running: map[int]int{}, execs: map[int]*execution{}, started: make(chan struct{}),
		trunkStarted: make(chan struct{}), trunkEnded: make(chan syscall.WaitStatus, 1),
	}
}

// begin starts all processes. It returns when the thread that does so has entered the cgroups. That
// thread never ends: the kernel kills each process at the end of the thread that has started it.
func (s *supervisor) begin() error {
	entered := make(chan error)
	go func() {
		runtime.LockOSThread()
		leave, err := s.enter()
		entered <- err
		if err != nil {
			return
		}
		s.startAll(leave)
		select {}
	}()
	return <-entered
}

// enter prepares the calling thread for starting processes, which inherit what it changes.
func (s *supervisor) enter() (leave func() error, err error) {
	if err := unix.Setpriority(unix.PRIO_PROCESS, unix.Gettid(), ordinary); err != nil {
		return nil, fmt.Errorf("priority: %w", err)
	}
	var none unix.Sigset_t
	if err := unix.PthreadSigmask(unix.SIG_SETMASK, &none, nil); err != nil {
		return nil, fmt.Errorf("signal mask: %w", err)
	}
	// The agent's keys are not for processes of users.
	if _, err := unix.KeyctlInt(unix.KEYCTL_JOIN_SESSION_KEYRING, 0, 0, 0, 0); err != nil {
		s.log.Warn("session keyring is shared", "error", err)
	}
	return s.group.Enter()
}

// startEach starts the processes in their order, until one cannot be started or the attempt ends.
func (s *supervisor) startEach() {
	for i := range s.order.Processes {
		if s.course.state() != Starting {
			s.skip(i)
			continue
		}
		if err := s.start(i); err != nil {
			s.log.Warn("process not started", "process", i, "error", err)
			s.notStarted(i, err)
			s.decide()
		}
	}
}

// startAll starts all processes, or what is to start them.
func (s *supervisor) startAll(leave func() error) {
	if s.order.Trunk != nil {
		s.startTrunk()
	} else {
		s.startEach()
	}
	if err := leave(); err != nil {
		s.log.Error("starting thread stays in a cgroup", "error", err)
	}
	close(s.children.started)
	s.execs.starting.Lock() // until this process is as it stays
	defer s.execs.starting.Unlock()
	s.course.change(func(status *Status) {
		if status.State == Starting {
			status.State = Running
		}
	})
	s.decide()
	protect(s.log)
	if err := s.moveOut(); err != nil {
		s.log.Warn("supervisor stays in the agent's cgroup", "error", err)
	}
}

// skip notes that a process is not started because the attempt ends.
func (s *supervisor) skip(process int) {
	s.course.change(func(status *Status) {
		status.Processes[process].Exit = &launch.Exit{
			Process: process, Error: "the attempt ended before: " + status.Detail, Stopped: true,
		}
	})
}

// notStarted notes why a process could not be started.
func (s *supervisor) notStarted(process int, why error) {
	s.course.change(func(status *Status) {
		status.Processes[process].Exit = &launch.Exit{Process: process, Error: why.Error()}
	})
}

// start starts one process. It cannot be reaped before it is known.
func (s *supervisor) start(number int) error {
	theirs, err := s.output.open(number, s.order.Processes[number].UID)
	defer func() {
		for _, fd := range theirs {
			if fd > 0 {
				_ = unix.Close(fd)
			}
		}
	}()
	if err != nil {
		return err
	}
	s.children.mu.Lock()
	defer s.children.mu.Unlock()
	pid, err := s.order.Processes[number].Execute(process.How{
		Files: []uintptr{s.null.Fd(), uintptr(theirs[0]), uintptr(theirs[1])}, Group: s.group,
	})
	if err != nil {
		return err
	}
	s.children.running[pid] = number
	id, err := proc.Of(pid)
	s.course.change(func(status *Status) {
		status.Processes[number].Identity = proc.Identity{PID: pid, StartTicks: id.StartTicks}
	})
	if err != nil {
		s.log.Warn("start time unknown", "pid", pid, "error", err)
	}
	return nil
}

// reap waits for children, those of the Spec and orphans, until the supervisor ends.
func (s *supervisor) reap() {
	caught := make(chan os.Signal, 1)
	signal.Notify(caught, unix.SIGCHLD)
	go func() {
		for range caught {
			if s.reapAll() {
				s.decide()
			}
		}
	}()
}

// reapAll reaps what has ended, and notes how. It reports whether a process of the Spec was among
// it.
func (s *supervisor) reapAll() (found bool) {
	s.children.mu.Lock()
	defer s.children.mu.Unlock()
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, syscall.WNOHANG, nil)
		if errors.Is(err, syscall.EINTR) {
			continue
		}
		if err != nil || pid == 0 {
			return found
		}
		if process, known := s.children.running[pid]; known {
			delete(s.children.running, pid)
			s.exited(process, status)
			found = true
		}
		if pid == s.children.trunk {
			s.children.trunk = 0
			s.children.trunkEnded <- status
		}
		if e := s.children.execs[pid]; e != nil {
			delete(s.children.execs, pid)
			e.exited = status
			close(e.reaped)
		}
	}
}

// exited notes how a process has ended.
func (s *supervisor) exited(process int, ended syscall.WaitStatus) {
	exit := launch.Exit{Process: process, Code: max(ended.ExitStatus(), 0)}
	if ended.Signaled() {
		exit.Signal = int(ended.Signal())
	}
	kills, err := s.group.OOMKills()
	if err != nil {
		s.log.Warn("OOM kills unknown", "error", err)
	}
	exit.OutOfMemory = exit.Signal == int(unix.SIGKILL) && kills > 0 && !s.killing.Load()
	s.course.change(func(status *Status) {
		exit.Stopped = status.State == Ending || s.killing.Load()
		status.OOMKills = kills
		status.Processes[process].Exit = &exit
	})
}

// signal sends a signal to one process of the Spec.
func (c *children) signal(process int, number unix.Signal) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for pid, each := range c.running {
		if each != process {
			continue
		}
		err := unix.Kill(pid, number)
		if errors.Is(err, unix.EINVAL) {
			err = fmt.Errorf("%w: there is no signal %d", ErrRefused, number)
		}
		return err
	}
	return fmt.Errorf("%w: process %d", ErrProcess, process)
}

// kill kills the processes of the Spec one by one: root may have moved one out of the cgroup.
func (c *children) kill() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for pid := range c.running {
		_ = unix.Kill(pid, unix.SIGKILL) // it may have ended
	}
	if c.trunk != 0 {
		_ = unix.Kill(c.trunk, unix.SIGKILL) // which ends its processes
	}
}
