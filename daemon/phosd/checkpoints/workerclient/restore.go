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

// Restore follows a worker that restores its session.
type Restore struct {
	cancel  context.CancelFunc
	explain func(error) error

	mu      sync.Mutex // guards all below
	now     *api.RestoredEvent
	over    bool
	failed  error
	changed chan struct{}
}

// Watch starts to follow a worker and returns at once, while the worker is starting. The result
// outlives the request's context. explain is as in Session.
func Watch(ctx context.Context, worker api.WorkerClient, explain func(error) error) *Restore {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	r := &Restore{cancel: cancel, explain: explain, now: &api.RestoredEvent{}, changed: make(chan struct{})}
	go func() {
		stream, err := worker.Restored(ctx, &api.RestoredRequest{})
		for err == nil {
			var event *api.RestoredEvent
			event, err = stream.Recv()
			if err == nil {
				r.set(event, nil)
			}
		}
		if !errors.Is(err, io.EOF) {
			err = r.explain(api.FromStatus(err))
		}
		r.set(nil, err)
	}()
	return r
}

func (r *Restore) set(event *api.RestoredEvent, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case err == nil:
		r.now = event
	case errors.Is(err, io.EOF):
		r.over = true
	default:
		r.over, r.failed = true, err
	}
	close(r.changed)
	r.changed = make(chan struct{})
}

// Ready waits until the program may run.
func (r *Restore) Ready(ctx context.Context, progress func(ckpt.Step)) error {
	_, err := r.until(ctx, (*api.RestoredEvent).GetReady, progress)
	return err
}

// Loaded waits until all memory is loaded, and returns how much it is.
func (r *Restore) Loaded(ctx context.Context) (uint64, error) {
	return r.until(ctx, (*api.RestoredEvent).GetDone, nil)
}

// until waits for a condition, as long as the worker sends heartbeats.
func (r *Restore) until(
	ctx context.Context,
	holds func(*api.RestoredEvent) bool,
	progress func(ckpt.Step),
) (bytes uint64, err error) {
	silent := time.NewTimer(silenceTimeout)
	defer silent.Stop()
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
			silent.Reset(silenceTimeout)
		case <-silent.C:
			return 0, fmt.Errorf("worker: it has sent nothing for %v: %w", silenceTimeout, context.DeadlineExceeded)
		case <-ctx.Done():
			return 0, context.Cause(ctx)
		}
	}
}

// Close stops following.
func (r *Restore) Close() { r.cancel() }

// attachTimeout is how long a worker that is ready may take to attach its program.
const attachTimeout = 30 * time.Second

// Attach gives a worker its program, and the program's userfaultfd; nil if there is none.
func (r *Restore) Attach(
	ctx context.Context, worker api.WorkerClient, control string, program *proc.Handle, userfaultfd *os.File,
) error {
	ctx, cancel := context.WithTimeout(ctx, attachTimeout)
	defer cancel()
	files := []*os.File{program.File()}
	if userfaultfd != nil {
		files = append(files, userfaultfd)
	}
	token, err := fdtoken.Send(ctx, control, files)
	if err != nil {
		return r.explain(err)
	}
	_, err = worker.Attach(ctx, &api.AttachRequest{
		Files: token, Pid: uint32(program.PID), StartTicks: program.StartTicks,
	})
	if err != nil {
		return r.explain(err)
	}
	return nil
}
