package lending

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"google.golang.org/grpc"

	"github.com/phos-gpu/phos/daemon/api"
	"github.com/phos-gpu/phos/daemon/worker/mirror"
)

// patience is how long a worker waits for its phosd, which may just be starting anew; a call of the
// program waits along.
const patience = 5 * time.Second

// ErrNoLender means that no phosd was there, or that it has not answered.
var ErrNoLender = errors.New("phosd, which could open it, does not answer")

// Borrower is the worker's side.
type Borrower struct {
	wishes chan wish
	// patience is the constant, for tests another one.
	patience time.Duration
}

// wish is answered once, whatever happens.
type wish struct {
	address, bytes uint64
	answer         chan answer
}

type answer struct {
	parts []mirror.Part
	err   error
}

// NewBorrower makes one that has no phosd yet.
func NewBorrower() *Borrower { return &Borrower{wishes: make(chan wish), patience: patience} }

// Borrow has phosd open what the program has mapped in a range. The files are the caller's.
func (b *Borrower) Borrow(address, bytes uint64) ([]mirror.Part, error) {
	over := time.NewTimer(b.patience)
	defer over.Stop()
	for {
		mine := wish{address, bytes, make(chan answer, 1)}
		select {
		case b.wishes <- mine:
		case <-over.C:
			return nil, ErrNoLender
		}
		select {
		case got := <-mine.answer:
			if errors.Is(got.err, ErrNoLender) {
				continue // it has ended over it; there may be another one in a moment
			}
			return got.parts, got.err
		case <-over.C:
			go func() { _ = mirror.Close((<-mine.answer).parts) }() // nobody wants them any more
			return nil, ErrNoLender
		}
	}
}

// Take finds the files that were handed over under a token.
type Take func(token []byte) ([]*os.File, error)

// Serve tells a phosd what is wanted until its stream ends, or over is closed.
func (b *Borrower) Serve(stream grpc.BidiStreamingServer[api.Loan, api.Want], take Take, over <-chan struct{}) error {
	for {
		select {
		case next := <-b.wishes:
			parts, err := ask(stream, next, take)
			next.answer <- answer{parts, err}
			if errors.Is(err, ErrNoLender) {
				return err
			}
		case <-stream.Context().Done():
			return context.Cause(stream.Context())
		case <-over:
			return nil
		}
	}
}

func ask(stream grpc.BidiStreamingServer[api.Loan, api.Want], w wish, take Take) ([]mirror.Part, error) {
	if err := stream.Send(&api.Want{Address: w.address, Bytes: w.bytes}); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNoLender, err)
	}
	loan, err := stream.Recv()
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNoLender, err)
	}
	if loan.GetError() != "" {
		return nil, fmt.Errorf("%w: phosd: %s", mirror.ErrUnreachable, loan.GetError())
	}
	files, err := take(loan.GetFiles())
	if err != nil {
		return nil, err
	}
	parts := make([]mirror.Part, 0, len(files))
	for i, part := range loan.GetParts() {
		if i < len(files) {
			parts = append(
				parts,
				mirror.Part{Start: part.GetStart(), End: part.GetEnd(), Offset: part.GetOffset(), File: files[i]},
			)
		}
	}
	if len(files) != len(loan.GetParts()) {
		for _, file := range files {
			_ = file.Close()
		}
		return nil, fmt.Errorf("%w: %d files for %d parts", api.ErrInvalid, len(files), len(loan.GetParts()))
	}
	return parts, nil
}
