package worker

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"google.golang.org/grpc"

	"github.com/phos-gpu/phos/daemon/api"
	"github.com/phos-gpu/phos/hijack/wire"
	"github.com/phos-gpu/phos/internal/linux/proc"
)

// errNotRestored means that the worker was not started to make a session again.
var errNotRestored = fmt.Errorf("%w: this session was not restored", api.ErrInvalid)

// attachment brings a program to its session.
type attachment struct {
	program *proc.Handle
	answer  chan error
}

// Restored reports how the session comes back, until all of it is there.
func (c *control) Restored(_ *api.RestoredRequest, stream grpc.ServerStreamingServer[api.RestoredEvent]) error {
	if err := rootOnly(stream.Context()); err != nil {
		return api.ToStatus(err)
	}
	r := c.worker.revival
	if r == nil {
		return api.ToStatus(errNotRestored)
	}
	return api.ToStatus(r.report(stream))
}

func (r *revival) report(stream grpc.ServerStreamingServer[api.RestoredEvent]) error {
	tick := time.NewTicker(reportTime)
	defer tick.Stop()
	for {
		now, failure, changed := r.state.look()
		if failure != nil {
			r.state.tell()
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
			return fmt.Errorf("%w: its session ends", api.ErrNoProgram)
		}
	}
}

// Attach gives a session that was restored its program.
func (c *control) Attach(ctx context.Context, request *api.AttachRequest) (*api.AttachReply, error) {
	if err := rootOnly(ctx); err != nil {
		return nil, err
	}
	r := c.worker.revival
	if r == nil {
		return nil, errNotRestored
	}
	program, err := r.program(ctx, request)
	if err != nil {
		return nil, err
	}
	if err := r.offer(ctx, program); err != nil {
		return nil, errors.Join(err, program.Close())
	}
	return &api.AttachReply{}, nil
}

// program is the process that a request speaks of.
func (r *revival) program(ctx context.Context, request *api.AttachRequest) (*proc.Handle, error) {
	actor, err := api.ActorOf(ctx)
	if err != nil {
		return nil, err
	}
	files, err := r.worker.desk.Take(request.GetFiles(), actor)
	if err != nil {
		return nil, err
	}
	if len(files) != 1 {
		for _, file := range files {
			_ = file.Close()
		}
		return nil, fmt.Errorf("%w: %d files in place of one pidfd", api.ErrInvalid, len(files))
	}
	id := proc.Identity{PID: int(request.GetPid()), StartTicks: request.GetStartTicks()}
	program, err := proc.Take(id, files[0])
	if err != nil {
		return nil, err
	}
	if err := id.Check(); err != nil {
		return nil, errors.Join(err, program.Close())
	}
	return program, nil
}

// offer brings a program to the session, once it is ready, and waits until its calls are served.
func (r *revival) offer(ctx context.Context, program *proc.Handle) error {
	a := attachment{program: program, answer: make(chan error, 1)}
	for {
		now, failure, changed := r.state.look()
		switch {
		case now.attached:
			return fmt.Errorf("%w: it has its program already", api.ErrInvalid)
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
			return fmt.Errorf("%w: its session ends", api.ErrNoProgram)
		}
	}
}

// take makes a program that has come back the session's.
func (r *revival) take(a attachment) error {
	w, live := r.worker, r.joined.link
	w.program = a.program
	live.memory.program = a.program.Identity
	live.file.Word32(wire.WordWorker).Store(visiblePid(a.program.Identity))
	found := readJob(a.program.Identity)
	if r.about.JobName != "" && !found.named {
		found.name = r.about.JobName
	}
	w.job.Store(&found)
	r.log.Set(found.logger(w.phosdLog(a.program.PID), w.config.Log).Handler())
	go w.followProgram(w.log)
	if err := r.joined.session.Return(); err != nil {
		return err
	}
	r.state.attach()
	w.log.Info("program is back", "backend", w.config.Gpus)
	live.file.SetGate(false)
	return nil
}

// visiblePid is the pid of this process as a program sees it, 0 where it sees other pids.
func visiblePid(program proc.Identity) uint32 {
	status, err := proc.ReadStatus(program.PID)
	if err != nil || len(status.PIDs) != 1 {
		return 0
	}
	return uint32(os.Getpid())
}
