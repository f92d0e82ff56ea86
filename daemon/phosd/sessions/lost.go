package sessions

import (
	"errors"
	"fmt"
	"os/exec"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/phos-gpu/phos/daemon/api"
	"github.com/phos-gpu/phos/internal/linux/proc"
)

// lostTimeout is how long a worker may take to end after its connection broke. The kernel closes
// the connection as one of the last steps.
const lostTimeout = 5 * time.Second

// LostError is returned when a worker has ended that a request needed.
type LostError struct {
	// Program is its pid; 0 if the worker has no program yet, during a restore.
	Program int
	// Worker is the worker's pid, and How is how it ended; zero if they are no longer known.
	Worker int
	How    string
}

func (e *LostError) Error() string {
	which := "its worker"
	if e.Worker != 0 {
		which += fmt.Sprintf(" (pid %d: %s)", e.Worker, e.How)
	}
	if e.Program == 0 {
		return fmt.Sprintf("the program that is being restored has lost %s; restore it again", which)
	}
	return fmt.Sprintf("pid %d has lost %s, and all that it had on a GPU: its next call of the driver fails; "+
		"restore it from an earlier generation", e.Program, which)
}

// Explain returns the error of a request to a session's worker. If the worker has ended it is a
// LostError. It is never api.ErrNoDaemon, which would tell callers that phosd does not run.
func (s *Session) Explain(err error) error { return s.explain(s.record.Program.PID, err) }

// Explain is Session.Explain for a session that is being restored.
func (r *Restoring) Explain(err error) error { return r.session.explain(0, err) }

// explain is Explain. It names a program; 0: the one that is being restored.
func (s *Session) explain(program int, err error) error {
	broken := errors.Is(err, api.ErrNoDaemon)
	switch {
	case s.hasEnded(), broken && s.awaitEnd():
		return s.lost(program)
	case !broken:
		return fmt.Errorf("worker: %w", err)
	}
	//nolint:errorlint // see above
	return fmt.Errorf("worker (pid %d): it runs, but its connection broke: %v; try again",
		s.record.Worker.PID, err)
}

// lost is the error of a program whose worker has ended.
func (s *Session) lost(program int) *LostError {
	return &LostError{Program: program, Worker: s.record.Worker.PID, How: s.howEnded()}
}

// awaitEnd waits until the worker has ended, and reports whether it has.
func (s *Session) awaitEnd() bool {
	ended := make(chan error, 1)
	go func() { ended <- s.worker.Wait() }() // until the handle is closed at the latest
	select {
	case <-s.ended:
		return true
	case err := <-ended:
		if err == nil {
			return true
		}
	case <-time.After(lostTimeout):
		return false
	}
	return s.hasEnded() // or the handle was closed because phosd ends
}

// hasEnded reports whether the session has ended. phosd closes its connection to the worker then.
func (s *Session) hasEnded() bool {
	select {
	case <-s.ended:
		return true
	default:
		return false
	}
}

// howEnded says how the worker has ended. Call it after that. The first call reads what is left of
// the session.
func (s *Session) howEnded() string {
	s.postOnce.Do(func() {
		s.post = s.describeExit()
		switch short := s.dir.Shortened(s.record.Session, s.record.ArenaBytes); {
		case s.overfull.Load():
			s.post += ", because the files of the session held too much"
		case short != "":
			s.post += "; the program, or another process of its user, has truncated " + short + ", which only the worker may do"
		}
	})
	return s.post
}

// describeExit says how the worker exited.
func (s *Session) describeExit() string {
	if s.reap == nil {
		return "an earlier phosd started it, so its exit status is unknown"
	}
	var exit *exec.ExitError
	if err := s.reap(); !errors.As(err, &exit) {
		return "ended by itself; the log of phosd may say why"
	}
	if status, ok := exit.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return "killed by " + unix.SignalName(status.Signal())
	}
	return fmt.Sprintf("ended with %v; the log of phosd says why", exit)
}

// Lost returns why a program that runs has no session, although it had one.
func (m *Sessions) Lost(program proc.Identity) error {
	if lost, known := m.lost.Load(program); known {
		return lost.(*LostError)
	}
	return &LostError{Program: program.PID} // an earlier phosd knew it
}

// keepLost remembers for Lost what has become of a session's worker, and forgets programs that have
// ended.
func (m *Sessions) keepLost(s *Session) {
	m.lost.Range(func(program, _ any) bool {
		if program.(proc.Identity).Gone() {
			m.lost.Delete(program)
		}
		return true
	})
	lost := s.lost(s.PID())
	if !s.program.Ended() {
		m.lost.Store(s.record.Program, lost)
	}
}
