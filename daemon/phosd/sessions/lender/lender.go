package lender

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/phos-gpu/phos/daemon/api"
	"github.com/phos-gpu/phos/daemon/api/fdtoken"
	"github.com/phos-gpu/phos/daemon/worker/mirror"
	"github.com/phos-gpu/phos/internal/linux/fsuid"
	"github.com/phos-gpu/phos/internal/linux/proc"
)

const (
	// sendTimeout is how long a worker may take to accept files.
	sendTimeout = 5 * time.Second
	// maxParts is how many files a range may consist of: each takes a descriptor of phosd.
	maxParts = 64
)

// Session is the session whose worker may borrow files.
type Session struct {
	Worker api.WorkerClient
	// Control is the path of the worker's socket.
	Control string
	// Program is the process that the session was made for; UID and GID are its user.
	Program  proc.Identity
	UID, GID uint32
	// Groups are those that the process had when it connected; nil: they are read from the process.
	Groups []uint32
	Log    *slog.Logger
}

// Serve answers the worker's requests until the worker or the context ends.
func Serve(ctx context.Context, s Session) error {
	stream, err := s.Worker.Lend(ctx)
	if err != nil {
		return api.FromStatus(err)
	}
	for {
		want, err := stream.Recv()
		if err != nil {
			return api.FromStatus(err)
		}
		loan, err := s.lend(ctx, want)
		if err != nil {
			s.Log.Debug("file not lent to worker", "address", want.GetAddress(), "bytes", want.GetBytes(), "error", err)
			loan = &api.Loan{Error: err.Error()}
		}
		if err := stream.Send(loan); err != nil {
			return api.FromStatus(err)
		}
	}
}

// lend opens the files of a range and hands them off to the worker.
func (s *Session) lend(ctx context.Context, want *api.Want) (*api.Loan, error) {
	parts, err := s.open(want.GetAddress(), want.GetBytes())
	if err != nil {
		return nil, err
	}
	defer func() { _ = mirror.Close(parts) }()
	loan, files := &api.Loan{}, make([]*os.File, 0, len(parts))
	for _, part := range parts {
		files = append(files, part.File)
		loan.Parts = append(loan.Parts, &api.LoanPart{Start: part.Start, End: part.End, Offset: part.Offset})
	}
	ctx, cancel := context.WithTimeout(ctx, sendTimeout)
	defer cancel()
	loan.Files, err = fdtoken.Send(ctx, s.Control, files)
	return loan, err
}

// open opens what the session's process has mapped in a range, with the rights of the session's
// user.
func (s *Session) open(address, bytes uint64) ([]mirror.Part, error) {
	if err := s.checkProgram(); err != nil {
		return nil, err
	}
	groups := s.Groups
	if groups == nil {
		var err error
		if groups, err = s.Program.Groups(); err != nil {
			return nil, err
		}
	}
	opened, open := 0, mirror.OpenMapped(s.Program, fsuid.Rights{UID: s.UID, GID: s.GID, Groups: groups})
	parts, err := mirror.Find(s.Program, address, bytes, func(m *proc.Mapping) (*os.File, error) {
		if opened++; opened > maxParts {
			return nil, fmt.Errorf("the range consists of more than %d files", maxParts)
		}
		return open(m)
	})
	if err != nil {
		return nil, err
	}
	// The process may have called exec in the meantime.
	if err := s.checkProgram(); err != nil {
		_ = mirror.Close(parts)
		return nil, err
	}
	return parts, nil
}

// checkProgram fails unless the process is still the session's and acts only as the session's user.
func (s *Session) checkProgram() error {
	only, err := s.Program.ActsOnlyAs(s.UID)
	if err != nil {
		return err
	}
	if !only {
		return fmt.Errorf("%w: pid %d no longer acts only as user %d", api.ErrNotPermitted, s.Program.PID, s.UID)
	}
	return s.Program.Check()
}
