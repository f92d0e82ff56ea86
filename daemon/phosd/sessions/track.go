package sessions

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/phos-gpu/phos/daemon/api"
	"github.com/phos-gpu/phos/internal/linux/boottime"
	"github.com/phos-gpu/phos/internal/linux/proc"
	"github.com/phos-gpu/phos/internal/linux/writetrack"
)

// ErrUntracked is returned for a program that has given its worker no userfaultfd: its kernel, or a
// container's filter of system calls, does not allow it.
var ErrUntracked = errors.New("what the program writes is not tracked")

// trackTime is how long a worker may take to answer.
const trackTime = time.Second

// Track begins to track what the program writes, and returns its userfaultfd, which the caller
// closes. The caller calls end when it tracks no more.
func (s *Session) Track(ctx context.Context) (userfaultfd *os.File, end func(), err error) {
	if userfaultfd, err = s.setTracking(ctx, true); err != nil {
		return nil, nil, err
	}
	return userfaultfd, func() {
		file, err := s.setTracking(context.Background(), false)
		if err == nil {
			_ = file.Close()
		}
	}, nil
}

// endTracking ends what a phosd before has tracked: until then the program cannot guard pages by
// itself.
func (s *Session) endTracking() {
	file, err := s.setTracking(context.Background(), false)
	if err != nil {
		return // nothing was tracked
	}
	defer file.Close()
	_ = writetrack.Release(file, s.PID(), 0, writetrack.Everything) // the program has ended
}

// setTracking tells the worker whether the program is tracked, and returns its userfaultfd.
func (s *Session) setTracking(ctx context.Context, on bool) (*os.File, error) {
	ctx, cancel := context.WithTimeout(ctx, trackTime)
	defer cancel()
	reply, err := s.Worker().Track(ctx, &api.TrackRequest{On: on, Order: uint64(boottime.Now())})
	if status.Code(err) == codes.Unimplemented || err == nil && reply.GetUserfaultfd() == 0 {
		return nil, ErrUntracked // a worker of an older version knows no such request
	}
	if err != nil {
		return nil, fmt.Errorf("track session %d: %w", s.record.Session, err)
	}
	file, err := proc.Borrow(s.worker.PID, int(reply.GetUserfaultfd()))
	if err != nil {
		return nil, fmt.Errorf("userfaultfd of pid %d: %w", s.PID(), err)
	}
	if err := writetrack.Check(file); err != nil {
		return nil, errors.Join(fmt.Errorf("userfaultfd of pid %d: %w", s.PID(), err), file.Close())
	}
	return file, nil
}
