package workerclient

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/phos-gpu/phos/ckpt"
	"github.com/phos-gpu/phos/daemon/api"
	"github.com/phos-gpu/phos/daemon/api/fdtoken"
	"github.com/phos-gpu/phos/internal/linux/proc"
)

// Return follows a worker that makes a session again.
type Return struct {
	cancel context.CancelFunc

	mu      sync.Mutex // guards all below
	now     *api.RestoredEvent
	over    bool
	failed  error
	changed chan struct{}
}

// Watch begins to follow, and waits for nothing: a worker is not there at once, and a restore has
// other things to do meanwhile. It outlives the context of the request that it was begun for.
func Watch(ctx context.Context, worker api.WorkerClient) *Return {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	r := &Return{cancel: cancel, now: &api.RestoredEvent{}, changed: make(chan struct{})}
	go func() {
		stream, err := worker.Restored(ctx, &api.RestoredRequest{})
		for err == nil {
			var event *api.RestoredEvent
			event, err = stream.Recv()
			if err == nil {
				r.take(event, nil)
			}
		}
		r.take(nil, err)
	}()
	return r
}

func (r *Return) take(event *api.RestoredEvent, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case err == nil:
		r.now = event
	case errors.Is(err, io.EOF):
		r.over = true
	default:
		r.over, r.failed = true, ofWorker(api.FromStatus(err))
	}
	close(r.changed)
	r.changed = make(chan struct{})
}

// Ready waits until the program may run.
func (r *Return) Ready(ctx context.Context, progress func(ckpt.Step)) error {
	_, err := r.until(ctx, (*api.RestoredEvent).GetReady, progress)
	return err
}

// Loaded waits until all memory is back, and says how much it was.
func (r *Return) Loaded(ctx context.Context) (uint64, error) {
	return r.until(ctx, (*api.RestoredEvent).GetDone, nil)
}

// until waits until something has come true, as long as the worker gives a sign of life now and
// then.
func (r *Return) until(
	ctx context.Context,
	holds func(*api.RestoredEvent) bool,
	progress func(ckpt.Step),
) (bytes uint64, err error) {
	quiet := time.NewTimer(quietTime)
	defer quiet.Stop()
	for {
		r.mu.Lock()
		now, over, failed, changed := r.now, r.over, r.failed, r.changed
		r.mu.Unlock()
		switch {
		case holds(now):
			return now.GetDoneBytes(), nil
		case failed != nil:
			return 0, failed
		case over:
			return 0, errors.New("worker: it has ended")
		}
		if progress != nil {
			progress(ckpt.Step{Phase: "load", DoneBytes: now.GetDoneBytes(), TotalBytes: now.GetTotalBytes()})
		}
		select {
		case <-changed:
			quiet.Reset(quietTime)
		case <-quiet.C:
			return 0, fmt.Errorf("worker: it has given no sign of life for %v: %w", quietTime, context.DeadlineExceeded)
		case <-ctx.Done():
			return 0, context.Cause(ctx)
		}
	}
}

// Close stops following.
func (r *Return) Close() { r.cancel() }

// attachTime is how long a worker that is ready may take to take its program.
const attachTime = 30 * time.Second

// Attach gives a worker its program.
func Attach(ctx context.Context, worker api.WorkerClient, control string, program *proc.Handle) error {
	ctx, cancel := context.WithTimeout(ctx, attachTime)
	defer cancel()
	token, err := fdtoken.Send(ctx, control, []*os.File{program.File()})
	if err != nil {
		return err
	}
	_, err = worker.Attach(ctx, &api.AttachRequest{
		Files: token, Pid: uint32(program.PID), StartTicks: program.StartTicks,
	})
	if err != nil {
		return ofWorker(err)
	}
	return nil
}

// ofWorker says whose error it is. To whoever asked, no daemon would mean no phosd.
func ofWorker(err error) error {
	if errors.Is(err, api.ErrNoDaemon) {
		return fmt.Errorf("worker: %v", err) //nolint:errorlint // on purpose
	}
	return fmt.Errorf("worker: %w", err)
}
