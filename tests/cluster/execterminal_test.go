package cluster

import (
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/phos-gpu/phos/internal/linux/pty"
	"github.com/phos-gpu/phos/tests/harness"
	"github.com/phos-gpu/phos/tests/hosts"
)

// sitting is a command with a user at its terminal.
type sitting struct {
	*hosts.Command
	t       *testing.T
	keys    *os.File
	inner   *os.File
	before  unix.Termios
	mu      sync.Mutex // guards printed
	printed string
}

// sit starts phos exec -it at a terminal of 33 rows and 101 columns.
func (e *subject) sit(command ...string) *sitting {
	e.Helper()
	return sitAt(e.T, 33, 101, e.exec(append([]string{"-it", e.far, "--"}, command...)...))
}

// sitAt starts a command at a terminal.
func sitAt(t *testing.T, rows, columns uint16, command *hosts.Command) *sitting {
	t.Helper()
	slave, master, err := pty.Open(rows, columns)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = slave.Close(), master.Close() })
	s := &sitting{Command: command, t: t, keys: master, inner: slave}
	s.before = s.mode()
	s.Stdin, s.Stdout, s.Stderr = slave, slave, slave
	s.SysProcAttr.Setctty = true
	s.Env = append(s.Env, "TERM=vt100")
	// Under nohup, programs would ignore SIGHUP. A signal that is caught here is not ignored there.
	caught := make(chan os.Signal, 1)
	signal.Notify(caught, syscall.SIGHUP)
	err = s.Start()
	signal.Stop(caught)
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		buffer := make([]byte, 4096)
		for {
			n, err := master.Read(buffer)
			if err != nil {
				return
			}
			s.mu.Lock()
			s.printed += string(buffer[:n])
			s.mu.Unlock()
		}
	}()
	return s
}

// mode returns the mode of the terminal.
func (s *sitting) mode() unix.Termios {
	s.t.Helper()
	mode, err := unix.IoctlGetTermios(int(s.inner.Fd()), unix.TCGETS)
	if err != nil {
		s.t.Fatal(err)
	}
	return *mode
}

// types presses keys.
func (s *sitting) types(keys string) {
	s.t.Helper()
	if _, err := s.keys.WriteString(keys); err != nil {
		s.t.Fatal(err)
	}
}

// shows waits until the terminal has shown a text.
func (s *sitting) shows(text string) {
	s.t.Helper()
	defer func() {
		if s.t.Failed() {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.t.Logf("the terminal shows %q", s.printed)
		}
	}()
	harness.Eventually(s.t, "the terminal shows "+text, func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return strings.Contains(s.printed, text)
	})
}

// ends waits for the end, and checks the status, and that the terminal is as it was.
func (s *sitting) ends(status int) {
	s.t.Helper()
	_ = s.Wait()
	if got := s.ProcessState.ExitCode(); got != status {
		s.t.Errorf("%v: status %d, want %d", s.Args, got, status)
	}
	if s.mode() != s.before {
		s.t.Errorf("%v leaves the terminal in another mode", s.Args)
	}
}

// TestExecTerminal: keys, sizes and job control reach the command, and the user's terminal is as
// before whatever the end is.
func TestExecTerminal(t *testing.T) {
	e := newSubject(t, "exec sleep 1000")
	s := e.sit("bash", "--norc")
	s.types("stty -echo; PS1=; tty; echo size $(stty size) $TERM\r")
	s.shows("/dev/pts/")
	s.shows("size 33 101 vt100\r\n")
	if s.mode() == s.before {
		t.Error("the user's terminal is not in raw mode")
	}
	if err := unix.IoctlSetWinsize(int(s.keys.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 44, Col: 55}); err != nil {
		t.Fatal(err)
	}
	harness.Eventually(t, "the command sees the new size", func() bool {
		s.types("echo now $(stty size)\r")
		s.mu.Lock()
		defer s.mu.Unlock()
		return strings.Contains(s.printed, "now 44 55\r\n")
	})
	s.types("trap 'echo caught' INT; sh -c 'trap \"exit 3\" INT; echo waits; while :; do sleep 0.01; done'; echo status $?\r")
	s.shows("waits\r\n")
	s.types("\x03")
	s.shows("status 3\r\n")
	s.types("exit 7\r")
	s.ends(7)

	s = e.sit("sh", "-c", "echo ready; exec sleep 1000")
	s.shows("ready\r\n")
	if err := s.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	s.ends(128 + int(syscall.SIGTERM))

	s = e.sit("sh", "-c", "trap '' HUP TERM; echo ready; while :; do sleep 0.01; done")
	s.shows("ready\r\n")
	if err := s.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	s.ends(255)

	s = e.sit("no-such-program")
	s.ends(127)

	s = e.sit("sh", "-c", "echo ready; exec sleep 1000")
	s.shows("ready\r\n")
	e.controllers[0].Kill()
	s.ends(255)
	s.shows("the connection to the cluster was lost")
}
