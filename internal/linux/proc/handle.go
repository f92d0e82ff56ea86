package proc

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// Handle watches a process, child or not, by a pidfd.
type Handle struct {
	Identity
	file *os.File
}

// Open opens a handle on a process. The error is ErrGone if the process has ended.
func Open(id Identity) (*Handle, error) {
	fd, err := unix.PidfdOpen(id.PID, unix.PIDFD_NONBLOCK)
	if err != nil {
		if errors.Is(err, unix.ESRCH) {
			err = ErrGone
		}
		return nil, fmt.Errorf("open pid %d: %w", id.PID, err)
	}
	handle := &Handle{Identity: id, file: os.NewFile(uintptr(fd), "pidfd")}
	// The pid may have been reused before the pidfd was opened, but not after.
	if err := id.Check(); err != nil {
		return nil, errors.Join(err, handle.Close())
	}
	return handle, nil
}

// OpenPID opens a handle on the process that has the pid now.
func OpenPID(pid int) (*Handle, error) {
	id, err := Of(pid)
	if err != nil {
		return nil, err
	}
	return Open(id)
}

// Inherit returns a handle for a pidfd that another process has passed.
func Inherit(id Identity, fd int) (*Handle, error) {
	// Without this the runtime would block a thread in poll instead of using epoll.
	if err := unix.SetNonblock(fd, true); err != nil {
		return nil, fmt.Errorf("inherit pidfd %d: %w", fd, err)
	}
	unix.CloseOnExec(fd)
	return &Handle{Identity: id, file: os.NewFile(uintptr(fd), "pidfd")}, nil
}

// Take returns a handle for a pidfd in a file, and closes the file.
func Take(id Identity, pidfd *os.File) (*Handle, error) {
	defer pidfd.Close()
	fd, err := unix.FcntlInt(pidfd.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("take pidfd of %d: %w", id.PID, err)
	}
	handle, err := Inherit(id, fd)
	if err != nil {
		_ = unix.Close(fd)
	}
	return handle, err
}

// Wait blocks until the process has ended, or Close is called (then it returns os.ErrClosed).
// It occupies no thread.
func (h *Handle) Wait() error {
	raw, err := h.file.SyscallConn()
	if err != nil {
		return err
	}
	return raw.Read(func(fd uintptr) bool { return ended(int(fd)) })
}

// Ended reports whether the process has ended.
func (h *Handle) Ended() bool {
	raw, err := h.file.SyscallConn()
	if err != nil {
		return true
	}
	over := true
	if err := raw.Control(func(fd uintptr) { over = ended(int(fd)) }); err != nil {
		return true
	}
	return over
}

// Signal sends a signal to exactly this process. The error is ErrGone if it has ended.
func (h *Handle) Signal(signal unix.Signal) error {
	raw, err := h.file.SyscallConn()
	if err != nil {
		return err
	}
	var failure error
	if err := raw.Control(func(fd uintptr) { failure = unix.PidfdSendSignal(int(fd), signal, nil, 0) }); err != nil {
		return err
	}
	if errors.Is(failure, unix.ESRCH) {
		return ErrGone
	}
	return failure
}

// File returns the pidfd, for passing it to a child.
func (h *Handle) File() *os.File { return h.file }

// Close stops watching.
func (h *Handle) Close() error { return h.file.Close() }

// ended reports whether the process of a pidfd has ended.
func ended(fd int) bool {
	watch := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
	for {
		count, err := unix.Poll(watch, 0)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		return err != nil || count > 0
	}
}
