package supervisor

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/phos-gpu/phos/cluster/agent/supervisor/process"
	"github.com/phos-gpu/phos/cluster/agent/supervisor/trunk"
	"github.com/phos-gpu/phos/cluster/launch"
	"github.com/phos-gpu/phos/internal/linux/proc"
	"github.com/phos-gpu/phos/internal/words"
)

// startTrunk starts the trunk, and waits until it has started the processes or has ended.
func (s *supervisor) startTrunk() {
	if s.course.state() != Starting {
		s.skipUnstarted()
		return
	}
	if err := s.forkTrunk(); err != nil {
		s.log.Warn("trunk not started", "error", err)
		for i := range s.order.Processes {
			s.notStarted(i, err)
		}
		s.decide()
		return
	}
	if !s.order.Trunk.Restores {
		<-s.children.trunkStarted
	}
}

// skipUnstarted notes that the processes that were not started will not be.
func (s *supervisor) skipUnstarted() {
	status, _ := s.course.now()
	for i, each := range status.Processes {
		if each.PID == 0 && each.Exit == nil {
			s.skip(i)
		}
	}
}

// forkTrunk starts the trunk. It cannot be reaped before it is known.
func (s *supervisor) forkTrunk() error {
	told, files, err := s.trunkFiles()
	defer func() {
		for _, file := range files[1:] { // the first one is this process's own
			_ = unix.Close(int(file))
		}
	}()
	if err != nil {
		return err
	}
	s.children.mu.Lock()
	defer s.children.mu.Unlock()
	pid, err := s.order.Trunk.Execute(process.How{Files: files, Group: s.group})
	if err != nil {
		return errors.Join(err, told.Close())
	}
	s.children.trunk = pid
	id, err := proc.Of(pid)
	s.course.change(func(status *Status) {
		status.Trunk = proc.Identity{PID: pid, StartTicks: id.StartTicks}
	})
	if err != nil {
		s.log.Warn("start time unknown", "pid", pid, "error", err)
	}
	go s.followTrunk(newReports(told, s.heed))
	return nil
}

// trunkFiles returns the other end of the trunk's reports, and what it inherits, by the numbers in
// package trunk.
func (s *supervisor) trunkFiles() (told *os.File, files []uintptr, err error) {
	files = make([]uintptr, 1, trunk.OrderFD+2*len(s.order.Processes))
	files[0] = s.null.Fd()
	add := func(theirs ...int) {
		for _, fd := range theirs {
			if fd > 0 {
				files = append(files, uintptr(fd))
			}
		}
	}
	for i := range s.order.Processes {
		streams, err := s.output.open(i, s.order.Trunk.UID)
		add(streams[:]...)
		if err != nil {
			return nil, files, err
		}
		if i > 0 {
			continue
		}
		var report, order int
		if told, report, err = newPipe("reports", s.order.Trunk.UID); err == nil {
			order, err = s.trunkOrder()
		}
		add(report, order)
		if err != nil {
			return nil, files, err
		}
	}
	return told, files, nil
}

// trunkOrder returns a file with what a trunk reads, at its beginning.
func (s *supervisor) trunkOrder() (int, error) {
	text, err := json.Marshal(s.order.Processes)
	if err != nil {
		return 0, err
	}
	file, err := unix.MemfdCreate("order", unix.MFD_CLOEXEC)
	if err != nil {
		return 0, fmt.Errorf("memory of an order: %w", err)
	}
	if n, err := unix.Pwrite(file, text, 0); err != nil || n < len(text) {
		return file, fmt.Errorf("memory of an order: %d of %d bytes: %w", n, len(text), err)
	}
	return file, nil
}

// followTrunk follows the trunk to its end.
func (s *supervisor) followTrunk(from *reports) {
	go from.read()
	ended := <-s.children.trunkEnded
	from.finish()
	status, _ := s.course.now()
	for i, each := range status.Processes {
		switch {
		case each.Exit != nil:
		case ended.Signaled() || ended.ExitStatus() != 0: // the kernel has killed the process with it
			s.exited(i, ended)
		default:
			s.course.change(func(status *Status) {
				unknown := launch.UnknownExit(i, "the trunk ended without a report of it")
				status.Processes[i].Exit = &unknown
			})
		}
	}
	s.endStarting()
	s.decide()
}

// endStarting notes that the trunk starts no more processes.
func (s *supervisor) endStarting() {
	s.children.mu.Lock()
	defer s.children.mu.Unlock()
	select {
	case <-s.children.trunkStarted:
	default:
		close(s.children.trunkStarted)
	}
}

// maxProblem is how much is kept of why a process could not be started.
const maxProblem = 500

// heed takes a report of the trunk. The user may have written it.
func (s *supervisor) heed(told trunk.Report) {
	now, _ := s.course.now()
	if len(told.Processes) != len(now.Processes) {
		return
	}
	for i, each := range told.Processes {
		known := &now.Processes[i]
		if each.PID != 0 && each.Status == nil && known.PID == 0 {
			s.noteChild(i, each.PID)
		}
		switch {
		case known.Exit != nil:
		case each.Problem != "":
			s.notStarted(i, errors.New(words.ClipTo(each.Problem, maxProblem)))
		case each.Status != nil:
			if status := syscall.WaitStatus(*each.Status); status.Exited() || status.Signaled() {
				s.exited(i, status)
			}
		}
	}
	s.decide()
	if told.Started && !s.order.Trunk.Restores {
		for i, each := range told.Processes {
			if each.PID == 0 && each.Problem == "" && now.Processes[i].Exit == nil {
				s.skip(i)
			}
		}
		s.endStarting()
	}
}

// noteChild notes which process the trunk has started. A restored one tells pids of before.
func (s *supervisor) noteChild(i, pid int) {
	id, err := proc.Of(pid)
	s.children.mu.Lock()
	child := err == nil && s.children.trunk != 0 && proc.Parent(pid) == s.children.trunk && id.Check() == nil
	s.children.mu.Unlock()
	if child {
		s.course.change(func(status *Status) { status.Processes[i].Identity = id })
	}
}

// signalChild sends a signal to a process that the trunk has started.
func (s *supervisor) signalChild(i int, number unix.Signal) error {
	status, _ := s.course.now()
	if i < 0 || i >= len(status.Processes) || status.Processes[i].Exit != nil || status.Processes[i].PID == 0 {
		return fmt.Errorf("%w: process %d", ErrProcess, i)
	}
	handle, err := proc.Open(status.Processes[i].Identity)
	if err != nil {
		return fmt.Errorf("%w: process %d: %w", ErrProcess, i, err)
	}
	defer handle.Close()
	if err = handle.Signal(number); errors.Is(err, unix.EINVAL) {
		err = fmt.Errorf("%w: there is no signal %d", ErrRefused, number)
	}
	return err
}

// reports reads what a trunk tells.
type reports struct {
	pipe   *os.File
	buffer [4 << 10]byte
	// begun is the beginning of a line.
	begun []byte
	take  func(trunk.Report)
	done  chan struct{}
}

func newReports(pipe *os.File, take func(trunk.Report)) *reports {
	return &reports{pipe: pipe, take: take, done: make(chan struct{})}
}

// read reads until the pipe has ended or finish is called.
func (r *reports) read() {
	defer close(r.done)
	raw, err := r.pipe.SyscallConn()
	for ended := false; err == nil && !ended; {
		err = raw.Read(func(fd uintptr) (done bool) {
			done, ended = r.readOnce(int(fd))
			return done
		})
	}
}

// finish reads what is still in the pipe. Other processes may have the trunk's end of it.
func (r *reports) finish() {
	_ = r.pipe.SetReadDeadline(time.Unix(0, 1)) // fails only if it is closed
	<-r.done
	if raw, err := r.pipe.SyscallConn(); err == nil {
		_ = raw.Control(func(fd uintptr) {
			for done, ended := true, false; done && !ended; {
				done, ended = r.readOnce(int(fd))
			}
		})
	}
	_ = r.pipe.Close() // nothing was written
}

// maxReport is the most bytes that a report may have.
const maxReport = 64 << 10

// readOnce reads once. done is false if there is nothing to read now.
func (r *reports) readOnce(fd int) (done, ended bool) {
	n, done, ended := readNow(fd, r.buffer[:])
	if n == 0 {
		return done, ended
	}
	r.begun = append(r.begun, r.buffer[:n]...)
	for {
		line, rest, whole := bytes.Cut(r.begun, []byte("\n"))
		if !whole {
			break
		}
		r.begun = rest
		var told trunk.Report
		if json.Unmarshal(line, &told) == nil {
			r.take(told)
		}
	}
	if len(r.begun) > maxReport {
		r.begun = nil
	}
	return true, false
}
