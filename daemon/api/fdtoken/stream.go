package fdtoken

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/phos-gpu/phos/daemon/api"
	"github.com/phos-gpu/phos/internal/linux/proc"
)

// Stream reads or writes a file that was handed off. The peer decides how fast that goes and may
// stop, so the end of a context ends all waiting.
type Stream struct {
	file *os.File
	ctx  context.Context //nolint:containedctx // io.Reader and io.Writer have no place for it
	stop func() bool
	idle time.Duration // 0: any time

	mu sync.Mutex // held while a deadline is set
}

// writeBytes is how much is written at a time. A slow peer must take that much before the stream
// counts as idle.
const writeBytes = 64 << 10

// IdleError is returned when the peer has sent or taken nothing for too long.
type IdleError struct{ Idle time.Duration }

func (e *IdleError) Error() string {
	return fmt.Sprintf("%v: the other end of the stream was idle for %v (users.stream_idle)", api.ErrExhausted, e.Idle)
}

// Unwrap returns api.ErrExhausted.
func (e *IdleError) Unwrap() error { return api.ErrExhausted }

// OpenStream returns a stream on a pipe, a socket or a regular file that is open for reading or
// writing. The file itself stays open and unchanged, except that a socket becomes non-blocking.
func OpenStream(ctx context.Context, file *os.File, write bool) (*Stream, error) {
	var info unix.Stat_t
	if err := unix.Fstat(int(file.Fd()), &info); err != nil {
		return nil, err
	}
	flags, err := unix.FcntlInt(file.Fd(), unix.F_GETFL, 0)
	if err != nil {
		return nil, err
	}
	mode := flags & unix.O_ACCMODE
	if flags&unix.O_PATH != 0 || write && mode == unix.O_RDONLY || !write && mode == unix.O_WRONLY {
		return nil, fmt.Errorf("%w: %s is not open for that access", api.ErrInvalid, file.Name())
	}
	s := &Stream{ctx: ctx}
	if s.file, err = reopen(file, info.Mode&unix.S_IFMT, mode); err != nil {
		return nil, err
	}
	// SetDeadline fails only for files that never block.
	s.stop = context.AfterFunc(ctx, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		_ = s.file.SetDeadline(time.Unix(1, 0))
	})
	return s, nil
}

// SetIdle makes reads and writes fail with an *IdleError when nothing moves for so long. It must be
// called before the stream is used.
func (s *Stream) SetIdle(idle time.Duration) { s.idle = idle }

// arm starts the idle time, unless the context has ended: then the deadline has passed, or is about
// to.
func (s *Stream) arm() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.idle > 0 && s.ctx.Err() == nil {
		_ = s.file.SetDeadline(time.Now().Add(s.idle)) // fails only for files that never block
	}
}

// reopen returns a non-blocking file descriptor, on which deadlines work.
func reopen(file *os.File, kind uint32, mode int) (*os.File, error) {
	var fd int
	var err error
	switch kind {
	case unix.S_IFIFO:
		// O_NONBLOCK belongs to the open file, which other processes share and may expect to block. So
		// the pipe is opened again.
		fd, err = unix.Open(proc.OwnFile(int(file.Fd())), mode|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	case unix.S_IFSOCK:
		if fd, err = unix.FcntlInt(file.Fd(), unix.F_DUPFD_CLOEXEC, 0); err == nil {
			err = unix.SetNonblock(fd, true)
		}
	case unix.S_IFREG:
		fd, err = unix.FcntlInt(file.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	default:
		err = fmt.Errorf("%w: not a pipe, a socket or a regular file", api.ErrInvalid)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file.Name(), err)
	}
	return os.NewFile(uintptr(fd), file.Name()), nil
}

// Read reads from the file. It fails with the context's cause once the context has ended.
func (s *Stream) Read(to []byte) (int, error) {
	s.arm()
	n, err := s.file.Read(to)
	return n, s.cause(err)
}

// Write writes to the file. It fails with the context's cause once the context has ended.
func (s *Stream) Write(from []byte) (written int, err error) {
	for first := true; first || written < len(from); first = false {
		s.arm()
		n, err := s.file.Write(from[written:min(written+writeBytes, len(from))])
		if written += n; err != nil {
			return written, s.cause(err)
		}
	}
	return written, nil
}

// cause replaces a deadline error by the context's cause, or says that the peer was idle.
func (s *Stream) cause(err error) error {
	switch {
	case !errors.Is(err, os.ErrDeadlineExceeded):
		return err
	case s.ctx.Err() != nil:
		return context.Cause(s.ctx)
	}
	return &IdleError{s.idle}
}

// Close closes the stream. The original file stays open.
func (s *Stream) Close() error {
	s.stop()
	return s.file.Close()
}
