package lending

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
	// handTime is how long a worker may take to take files.
	handTime = 5 * time.Second
	// mostParts is how many files a range may lie in: each is a descriptor of phosd's for a moment.
	mostParts = 64
)

// Session is what phosd must know of one to lend to its worker.
type Session struct {
	Worker api.WorkerClient
	// Control is the path of the worker's socket.
	Control string
	// Program is the process that the session was made for, UID and GID its user.
	Program  proc.Identity
	UID, GID uint32
	Log      *slog.Logger
}

// Lend answers what a worker wants until the worker ends, or the context.
func Lend(ctx context.Context, s Session) error {
	stream, err := s.Worker.Lend(ctx)
	if err != nil {
		return api.FromStatus(err)
	}
	for {
		want, err := stream.Recv()
		if err != nil {
			return api.FromStatus(err)
		}
		loan, err := s.loan(ctx, want)
		if err != nil {
			s.Log.Debug("nothing is lent", "address", want.GetAddress(), "bytes", want.GetBytes(), "why", err)
			loan = &api.Loan{Error: err.Error()}
		}
		if err := stream.Send(loan); err != nil {
			return api.FromStatus(err)
		}
	}
}

// loan opens what is wanted, and hands it over.
func (s *Session) loan(ctx context.Context, want *api.Want) (*api.Loan, error) {
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
	ctx, cancel := context.WithTimeout(ctx, handTime)
	defer cancel()
	loan.Files, err = fdtoken.Send(ctx, s.Control, files)
	return loan, err
}

// open opens what the session's process has mapped, as the session's user.
func (s *Session) open(address, bytes uint64) ([]mirror.Part, error) {
	if err := s.still(); err != nil {
		return nil, err
	}
	groups, err := s.Program.Groups()
	if err != nil {
		return nil, err
	}
	opened, open := 0, mirror.OpenMapped(s.Program, fsuid.Rights{UID: s.UID, GID: s.GID, Groups: groups})
	parts, err := mirror.Find(s.Program, address, bytes, func(m *proc.Mapping) (*os.File, error) {
		if opened++; opened > mostParts {
			return nil, fmt.Errorf("the range lies in more than %d files", mostParts)
		}
		return open(m)
	})
	if err != nil {
		return nil, err
	}
	// It may have become another program meanwhile.
	if err := s.still(); err != nil {
		_ = mirror.Close(parts)
		return nil, err
	}
	return parts, nil
}

// still insists that the process is the session's, and nobody else's than the session's user.
func (s *Session) still() error {
	only, err := s.Program.ActsOnlyAs(s.UID)
	if err != nil {
		return err
	}
	if !only {
		return fmt.Errorf("%w: pid %d has other rights than user %d by now", api.ErrNotPermitted, s.Program.PID, s.UID)
	}
	return s.Program.Check()
}
