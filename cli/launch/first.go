package launch

import (
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// lowPIDs is the number of pids that pos_cli leaves free in a container. The kernel does not reuse
// lower ones when pids start again, either. A restore in another container needs the program's
// pids; there, pos_cli and its threads have low ones.
const lowPIDs = 300

// EndedError is returned when the program that pos_cli started as a child ended with a status other
// than 0.
type EndedError struct{ status int }

func (e *EndedError) Error() string { return fmt.Sprintf("the program ended with status %d", e.status) }

// Status returns the program's exit status, or 128 + n if signal n ended it.
func (e *EndedError) Status() int { return e.status }

// runAsFirst runs the command as a child of the first process of a container, and returns when the
// child has ended. The first process itself cannot be saved: a container has only one, and it ends
// with the container.
func runAsFirst(path string, command, environment []string) error {
	spendPIDs()
	terminal := leaveTerminal()
	// From here on no signal ends this process.
	signals := make(chan os.Signal, 64)
	signal.Notify(signals)
	child, err := os.StartProcess(path, command, &os.ProcAttr{
		Env: environment, Files: []*os.File{os.Stdin, os.Stdout, os.Stderr},
		// CRIU saves a session only with its leader.
		Sys: &syscall.SysProcAttr{Setsid: true, Setctty: terminal, Ctty: unix.Stdin},
	})
	if err != nil {
		return &NotStartedError{command[0], err}
	}
	for got := range signals {
		switch got {
		case syscall.SIGCHLD:
			if status, ended := reap(child.Pid); ended {
				return endedAs(status)
			}
		case syscall.SIGURG: // Go's own
		default:
			_ = child.Signal(got) // fails if the child has just ended
		}
	}
	return nil
}

// spendPIDs uses up low pids. Each thread takes the next one and ends.
func spendPIDs() {
	for range 2 * lowPIDs {
		tid := make(chan int)
		go func() {
			runtime.LockOSThread() // the thread ends with the goroutine
			tid <- unix.Gettid()
		}()
		if <-tid >= lowPIDs {
			return
		}
	}
}

// leaveTerminal gives up the controlling terminal, so that the child can take it. It reports
// whether standard input is that terminal. Only the leader of a session may do so: "unshare -pf"
// starts the first process of a pid namespace in the session of a shell outside, and a child with
// root's rights that took the terminal would take it from that shell. There the child has no
// controlling terminal. It can still use its standard files, and the keys of the terminal send
// signals to this process, which passes them on.
func leaveTerminal() bool {
	if session, err := unix.Getsid(0); err != nil || session != os.Getpid() {
		return false
	}
	// This is an error unless it is the controlling terminal.
	if _, err := unix.IoctlGetInt(unix.Stdin, unix.TIOCGSID); err != nil {
		return false
	}
	// The kernel sends both to the group of a leader that leaves its terminal.
	signal.Ignore(syscall.SIGHUP, syscall.SIGCONT)
	return unix.IoctlSetInt(unix.Stdin, unix.TIOCNOTTY, 0) == nil
}

// reap collects the processes that have ended, among them orphans. ended reports whether the given
// child is among them.
func reap(child int) (status syscall.WaitStatus, ended bool) {
	for {
		var each syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &each, syscall.WNOHANG, nil)
		if err == syscall.EINTR {
			continue
		}
		if err != nil || pid <= 0 {
			return status, ended
		}
		if pid == child {
			status, ended = each, true
		}
	}
}

// endedAs returns the error for a child's status; nil for status 0.
func endedAs(status syscall.WaitStatus) error {
	switch {
	case status.Signaled():
		return &EndedError{128 + int(status.Signal())}
	case status.ExitStatus() != 0:
		return &EndedError{status.ExitStatus()}
	}
	return nil
}
