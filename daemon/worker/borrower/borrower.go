package borrower

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

// defaultPatience is how long a request waits for phosd, which may just be restarting. A call of
// the program waits for it.
const defaultPatience = 5 * time.Second

// ErrNoLender is returned if phosd is not connected, or does not answer.
var ErrNoLender = errors.New("phosd, which could open the file, does not answer")

// Borrower asks phosd for files.
type Borrower struct {
	requests chan request
	// Patience is how long a request waits for phosd. Set it before the first Borrow.
	Patience time.Duration
}

// request is one call of Borrow. It gets exactly one reply.
type request struct {
	address, bytes uint64
	reply          chan reply
}

type reply struct {
	parts []mirror.Part
	err   error
}

// New returns a Borrower that is not connected to phosd yet.
func New() *Borrower { return &Borrower{requests: make(chan request), Patience: defaultPatience} }

// Borrow has phosd open the files that the program has mapped in a range. The caller closes them.
func (b *Borrower) Borrow(address, bytes uint64) ([]mirror.Part, error) {
	timeout := time.NewTimer(b.Patience)
	defer timeout.Stop()
	for {
		mine := request{address, bytes, make(chan reply, 1)}
		select {
		case b.requests <- mine:
		case <-timeout.C:
			return nil, ErrNoLender
		}
		select {
		case got := <-mine.reply:
			if errors.Is(got.err, ErrNoLender) {
				continue // phosd ended during the request; the next one may connect in time
			}
			return got.parts, got.err
		case <-timeout.C:
			go func() { _ = mirror.Close((<-mine.reply).parts) }() // a late reply is not used
			return nil, ErrNoLender
		}
	}
}

// Take returns the files that were handed off under a token.
type Take func(token []byte) ([]*os.File, error)

// Serve sends requests to phosd until the stream ends or stop is closed.
func (b *Borrower) Serve(stream grpc.BidiStreamingServer[api.Loan, api.Want], take Take, stop <-chan struct{}) error {
	for {
		select {
		case next := <-b.requests:
			parts, err := ask(stream, next, take)
			next.reply <- reply{parts, err}
			if errors.Is(err, ErrNoLender) {
				return err
			}
		case <-stream.Context().Done():
			return context.Cause(stream.Context())
		case <-stop:
			return nil
		}
	}
}

// ask sends one request and takes the files of the answer.
func ask(stream grpc.BidiStreamingServer[api.Loan, api.Want], r request, take Take) ([]mirror.Part, error) {
	if err := stream.Send(&api.Want{Address: r.address, Bytes: r.bytes}); err != nil {
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
		return nil, fmt.Errorf("%w: got %d files for %d parts", api.ErrInvalid, len(files), len(loan.GetParts()))
	}
	return parts, nil
}
