package worker

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"google.golang.org/grpc"

	"github.com/phos-gpu/phos/daemon/api"
	"github.com/phos-gpu/phos/daemon/worker/tracker"
	"github.com/phos-gpu/phos/hijack/wire"
	"github.com/phos-gpu/phos/internal/linux/fdpass"
	"github.com/phos-gpu/phos/internal/linux/proc"
)

// errNotRestored is returned by a worker that was not started to restore a session.
var errNotRestored = fmt.Errorf("%w: this session was not restored", api.ErrInvalid)

// attachment is a request to attach a program; answer receives the result.
type attachment struct {
	program *proc.Handle
	// tracker tracks what the program writes; nil if that is not possible.
	tracker *tracker.Tracker
	answer  chan error
}

// Restored streams the progress of the restore until all memory is loaded.
func (c *control) Restored(_ *api.RestoredRequest, stream grpc.ServerStreamingServer[api.RestoredEvent]) error {
	if err := rootOnly(stream.Context()); err != nil {
		return api.ToStatus(err)
	}
	r := c.worker.restoring
	if r == nil {
		return api.ToStatus(errNotRestored)
	}
	return api.ToStatus(r.report(stream))
}

// report sends the progress until all memory is loaded or the restore fails.
func (r *workerRestore) report(stream grpc.ServerStreamingServer[api.RestoredEvent]) error {
	tick := time.NewTicker(reportTime)
	defer tick.Stop()
	for {
		now, failure, changed := r.state.look()
		if failure != nil {
			r.state.setReported()
			return failure
		}
		event := &api.RestoredEvent{Ready: now.ready, Done: now.loaded}
		if loader := r.loader.Load(); loader != nil {
			event.DoneBytes, event.TotalBytes = loader.Progress()
		}
		if err := stream.Send(event); err != nil || now.loaded {
			return err
		}
		select {
		case <-changed:
		case <-tick.C:
		case <-stream.Context().Done():
			return stream.Context().Err()
		case <-r.worker.over:
			return fmt.Errorf("%w: the session ends", api.ErrNoProgram)
		}
	}
}

// Attach connects a restored session to its program.
func (c *control) Attach(ctx context.Context, request *api.AttachRequest) (*api.AttachReply, error) {
	if err := rootOnly(ctx); err != nil {
		return nil, err
	}
	r := c.worker.restoring
	if r == nil {
		return nil, errNotRestored
	}
	caller, err := api.CallerOf(ctx)
	if err != nil {
		return nil, err
	}
	files, err := c.worker.tokens.Take(request.GetFiles(), caller)
	if err != nil {
		return nil, err
	}
	if len(files) != 1 && len(files) != 2 {
		fdpass.Close(files)
		return nil, fmt.Errorf("%w: got %d files, want a pidfd and at most one userfaultfd", api.ErrInvalid, len(files))
	}
	a := attachment{answer: make(chan error, 1)}
	if len(files) > 1 {
		a.tracker = tracker.New(files[1])
	}
	if a.program, err = programOf(request, files[0]); err != nil {
		return nil, errors.Join(err, a.tracker.Close())
	}
	if err := r.submit(ctx, a); err != nil {
		return nil, errors.Join(err, a.program.Close(), a.tracker.Close())
	}
	return &api.AttachReply{}, nil
}

// programOf returns the process that a request names. It arrives as a pidfd.
func programOf(request *api.AttachRequest, pidfd *os.File) (*proc.Handle, error) {
	id := proc.Identity{PID: int(request.GetPid()), StartTicks: request.GetStartTicks()}
	program, err := proc.Take(id, pidfd)
	if err != nil {
		return nil, err
	}
	if err := id.Check(); err != nil {
		return nil, errors.Join(err, program.Close())
	}
	return program, nil
}

// submit waits until the session is ready, hands the program to run and waits until its calls are
// served.
func (r *workerRestore) submit(ctx context.Context, a attachment) error {
	for {
		now, failure, changed := r.state.look()
		switch {
		case now.attached:
			return fmt.Errorf("%w: the session already has its program", api.ErrInvalid)
		case failure != nil && !now.ready:
			return failure
		}
		var ready chan attachment
		if now.ready {
			ready = r.attach
		}
		select {
		case ready <- a:
			return <-a.answer
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		case <-r.worker.over:
			return fmt.Errorf("%w: the session ends", api.ErrNoProgram)
		}
	}
}

// commit connects the restored program to the session, and opens the gate.
func (r *workerRestore) commit(a attachment) error {
	w, live := r.worker, r.active.link
	w.program = a.program
	live.memory.program, live.memory.tracker = a.program.Identity, a.tracker
	w.tracker.Store(a.tracker)
	live.file.Word32(wire.WordWorker).Store(visiblePid(a.program.Identity))
	found := readJob(a.program.Identity)
	if r.about.JobName != "" && !found.named {
		found.name = r.about.JobName
	}
	w.job.Store(&found)
	r.log.Set(found.logger(w.phosdLog(a.program.PID), w.config.Log).Handler())
	go w.watchProgram(w.log)
	if err := r.active.session.ShowRegistered(); err != nil {
		return err
	}
	r.state.setAttached()
	w.log.Info("session resumed", "backend", w.config.Gpus)
	live.file.SetGate(false)
	return nil
}

// visiblePid returns the pid of this process as the program sees it, or 0 if the program is in
// another pid namespace.
func visiblePid(program proc.Identity) uint32 {
	status, err := proc.ReadStatus(program.PID)
	if err != nil || len(status.PIDs) != 1 {
		return 0
	}
	return uint32(os.Getpid())
}
