package fdtoken

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/phos-gpu/phos/daemon/api"
)

// Stream is a file that was handed over to be read from its place to its end, or to be written.
// Whoever handed it over decides how fast that goes, and may stop: the end of a context ends the
// waiting.
type Stream struct {
	file *os.File
	ctx  context.Context //nolint:containedctx // io.Reader and io.Writer have no place for it
	stop func() bool
}

// OpenStream makes a stream of a pipe, a socket or a regular file; what the file was opened for
// must fit. The file itself stays open and as it is, but for a socket, which blocks no longer.
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
		return nil, fmt.Errorf("%w: %s was not opened for that", api.ErrInvalid, file.Name())
	}
	s := &Stream{ctx: ctx}
	if s.file, err = reopen(file, info.Mode&unix.S_IFMT, mode); err != nil {
		return nil, err
	}
	// Where it fails the file never waits.
	s.stop = context.AfterFunc(ctx, func() { _ = s.file.SetDeadline(time.Unix(1, 0)) })
	return s, nil
}

// reopen makes a descriptor whose waiting can be ended.
func reopen(file *os.File, kind uint32, mode int) (*os.File, error) {
	var fd int
	var err error
	switch kind {
	case unix.S_IFIFO:
		// The pipe is another's too, who need not bear that it does not block: so it is opened once more.
		fd, err = unix.Open(fmt.Sprintf("/proc/self/fd/%d", file.Fd()), mode|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	case unix.S_IFSOCK:
		if fd, err = unix.FcntlInt(file.Fd(), unix.F_DUPFD_CLOEXEC, 0); err == nil {
			err = unix.SetNonblock(fd, true)
		}
	case unix.S_IFREG:
		fd, err = unix.FcntlInt(file.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	default:
		err = fmt.Errorf("%w: it is no pipe, socket or regular file", api.ErrInvalid)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file.Name(), err)
	}
	return os.NewFile(uintptr(fd), file.Name()), nil
}

// Read reads.
func (s *Stream) Read(to []byte) (int, error) {
	n, err := s.file.Read(to)
	return n, s.why(err)
}

// Write writes.
func (s *Stream) Write(from []byte) (int, error) {
	n, err := s.file.Write(from)
	return n, s.why(err)
}

func (s *Stream) why(err error) error {
	if errors.Is(err, os.ErrDeadlineExceeded) && s.ctx.Err() != nil {
		return context.Cause(s.ctx)
	}
	return err
}

// Close ends it here; the file that it was made of stays open.
func (s *Stream) Close() error {
	s.stop()
	return s.file.Close()
}
