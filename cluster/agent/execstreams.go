package agent

import (
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/phos-gpu/phos/cluster/api"
	"github.com/phos-gpu/phos/internal/linux/pty"
)

// execStreams are the standard streams of a command: three pipes, or a terminal.
type execStreams struct {
	// theirs are the command's ends.
	theirs []*os.File
	// input is written to, outputs are read: of a terminal, both are its other end.
	input    *os.File
	outputs  []*os.File
	terminal bool
	ended    atomic.Bool // the command has
}

// openExecStreams opens streams whose ends belong to a user.
func openExecStreams(start *api.ExecStart, uid uint32) (s *execStreams, err error) {
	s = &execStreams{terminal: start.GetTerminal()}
	if s.terminal {
		err = s.openTerminal(start.GetSize())
	} else {
		err = s.openPipes()
	}
	for _, file := range s.theirs {
		if err == nil {
			err = file.Chown(int(uid), -1) // so that it can open /dev/stdout
		}
	}
	if err != nil {
		s.closeTheirs()
		s.close()
		return nil, fmt.Errorf("standard streams of the command: %w", err)
	}
	return s, nil
}

// openPipes opens a pipe for each stream.
func (s *execStreams) openPipes() error {
	for i := range 3 {
		read, write, err := os.Pipe()
		if err != nil {
			return err
		}
		if i == 0 {
			s.theirs, s.input = append(s.theirs, read), write
		} else {
			s.theirs, s.outputs = append(s.theirs, write), append(s.outputs, read)
		}
	}
	return nil
}

// openTerminal opens a terminal for all streams.
func (s *execStreams) openTerminal(size *api.WindowSize) error {
	slave, master, err := pty.Open(uint16(size.GetRows()), uint16(size.GetColumns()))
	if err != nil {
		return err
	}
	s.theirs = []*os.File{slave}
	defer master.Close()
	const userOnly = 0o620 // and the messages of others
	if err := slave.Chmod(userOnly); err != nil {
		return err
	}
	for range 2 { // the slave is passed on three times
		again, err := unix.FcntlInt(slave.Fd(), unix.F_DUPFD_CLOEXEC, 0)
		if err != nil {
			return err
		}
		s.theirs = append(s.theirs, os.NewFile(uintptr(again), "terminal"))
	}
	// A descriptor that does not block is one whose reads and writes end when it is closed.
	ours, err := unix.FcntlInt(master.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return err
	}
	if err := unix.SetNonblock(ours, true); err != nil {
		return errors.Join(err, unix.Close(ours))
	}
	s.input = os.NewFile(uintptr(ours), "terminal")
	s.outputs = []*os.File{s.input}
	return nil
}

// endOfFile is the character that ends the input from a terminal.
const endOfFile = 4

// endInput ends the input.
func (s *execStreams) endInput() {
	if s.terminal {
		_, _ = s.input.Write([]byte{endOfFile}) // fails if the command has ended
		return
	}
	_ = s.input.Close() // nothing is kept back
}

// resize changes the size of the terminal.
func (s *execStreams) resize(to *api.WindowSize) {
	raw, err := s.input.SyscallConn()
	if err != nil || !s.terminal {
		return
	}
	// Not fatal: a terminal works with another size.
	_ = raw.Control(func(fd uintptr) {
		_ = unix.IoctlSetWinsize(int(fd), unix.TIOCSWINSZ, &unix.Winsize{
			Row: uint16(to.GetRows()), Col: uint16(to.GetColumns()),
		})
	})
}

// drainTime is how long to wait for output of a command that has ended: a process outside may have
// been given the stream.
const drainTime = 2 * time.Second

// limit gives up the next read after a time, once the command has ended.
func (s *execStreams) limit(from *os.File) {
	if s.ended.Load() {
		_ = from.SetReadDeadline(time.Now().Add(drainTime)) // fails only if it is closed
	}
}

// drain lets reads end soon.
func (s *execStreams) drain() {
	s.ended.Store(true)
	for _, each := range s.outputs {
		s.limit(each)
	}
}

// closeTheirs closes the command's ends here.
func (s *execStreams) closeTheirs() {
	for _, file := range s.theirs {
		_ = file.Close() // nothing was written
	}
	s.theirs = nil
}

// close closes this side's ends.
func (s *execStreams) close() {
	for _, file := range append(s.outputs, s.input) {
		if file != nil {
			_ = file.Close() // what was written is with the command, or lost with it
		}
	}
}
