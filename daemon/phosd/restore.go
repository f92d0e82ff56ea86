package phosd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"google.golang.org/grpc"

	"github.com/phos-gpu/phos/ckpt"
	"github.com/phos-gpu/phos/daemon/api"
	"github.com/phos-gpu/phos/daemon/phosd/checkpoints"
	"github.com/phos-gpu/phos/daemon/phosd/checkpoints/restored"
)

// restoreStream is one restore request.
type restoreStream struct {
	daemon  *Daemon
	caller  api.Caller
	quota   *inFlight
	begin   *api.RestoreBegin
	files   []*os.File
	out     *api.EventQueue[*api.RestoreEvent]
	commits chan struct{}
	signals chan int
	// cancels ends the restore; it has no effect once the program runs.
	cancels chan struct{}
}

// Restore restores an image, and follows the restored program to its end.
func (s *service) Restore(stream grpc.BidiStreamingServer[api.RestoreCommand, api.RestoreEvent]) error {
	caller, first, err := receiveFirst(stream)
	if err != nil {
		return err
	}
	begin := first.GetBegin()
	if begin == nil && first.GetFollow() == nil {
		return fmt.Errorf("%w: the first command of a restore must be begin or follow", api.ErrInvalid)
	}
	counted, err := s.daemon.track(caller, begin.GetFiles())
	if err != nil {
		return err
	}
	defer counted.done()
	r := &restoreStream{
		daemon: s.daemon, caller: caller, quota: counted, begin: begin,
		out:     &api.EventQueue[*api.RestoreEvent]{Send: stream.Send},
		commits: make(chan struct{}, 1), signals: make(chan int, 16), cancels: make(chan struct{}, 1),
	}
	if begin != nil {
		if r.files, err = counted.take(begin.GetFiles()); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithCancelCause(stream.Context())
	defer cancel(nil)
	go r.receiveCommands(stream, cancel)
	if follow := first.GetFollow(); follow != nil {
		err = r.reattach(ctx, follow.GetTree())
	} else {
		err = r.run(ctx)
	}
	return errors.Join(err, r.out.Flush())
}

// receiveCommands receives the caller's commands during the restore and while the program runs.
func (r *restoreStream) receiveCommands(
	stream grpc.BidiStreamingServer[api.RestoreCommand, api.RestoreEvent],
	cancel context.CancelCauseFunc,
) {
	for {
		command, err := stream.Recv()
		switch {
		case errors.Is(err, io.EOF):
			return // no more commands; the caller waits for the end
		case err != nil:
			cancel(checkpoints.ErrCanceled)
			return
		case command.GetCancel() != nil:
			trySend(r.cancels, struct{}{})
		case command.GetCommit() != nil:
			trySend(r.commits, struct{}{})
		case command.GetSignal() != 0:
			trySend(r.signals, int(command.GetSignal())) // dropped if many are queued
		}
	}
}

// run restores the program and follows it to its end.
func (r *restoreStream) run(ctx context.Context) error {
	begun := time.Now()
	program, err := r.restore(ctx)
	if err != nil {
		return err
	}
	// The caller's terminal and pipes are the program's now. Open here, they would only keep pipes
	// from closing.
	r.quota.closeFiles()
	r.files = nil
	if r.begin.GetDetach() {
		setAnswered(ctx)
	}
	if err := r.out.Push(&api.RestoreEvent{Event: &api.RestoreEvent_Running{Running: &api.RestoreRunning{
		Pid: r.caller.CallerPID(program.Root), Processes: uint64(program.Processes),
		TotalMicroseconds: uint64(program.Took.Microseconds()), Tree: program.Tree.Name(),
	}}}); err != nil {
		return nil // the caller has disconnected; the program runs
	}
	if r.begin.GetDetach() {
		return r.reportLoaded(ctx, program, begun)
	}
	loading := make(chan struct{})
	go func() {
		defer close(loading)
		if err := r.reportLoaded(ctx, program, begun); err != nil {
			r.notice(err.Error())
		}
	}()
	return r.follow(ctx, program.Tree, loading)
}

// restore restores the program, unless the caller cancels.
func (r *restoreStream) restore(ctx context.Context) (*checkpoints.Restored, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() {
		select {
		case <-r.cancels:
			cancel(checkpoints.ErrCanceled)
		case <-ctx.Done():
		}
	}()
	request := checkpoints.RestoreRequest{
		Caller: r.caller, Begin: r.begin, Files: r.files, Notice: r.notice,
		Progress: func(now ckpt.Step) { reportStep(r.out, now) },
	}
	if r.begin.GetHold() {
		request.Hold = func(ctx context.Context) error {
			if err := r.out.Push(&api.RestoreEvent{Event: &api.RestoreEvent_Held{Held: &api.RestoreHeld{}}}); err != nil {
				return err
			}
			return awaitCommit(ctx, r.commits)
		}
	}
	return r.daemon.checkpoints.Restore(ctx, request)
}

// reattach follows a tree that was restored by an earlier request, of this phosd or of the one
// before.
func (r *restoreStream) reattach(ctx context.Context, name string) error {
	tree, err := r.daemon.checkpoints.Tree(name, r.caller)
	if err != nil {
		return err
	}
	loading := make(chan struct{})
	go func() {
		defer close(loading)
		if err := tree.Loaded(ctx); errors.Is(err, ckpt.ErrMemoryLost) {
			r.notice(err.Error())
		}
	}()
	return r.follow(ctx, tree, loading)
}

// notice passes a notice on. It is lost if the caller has disconnected.
func (r *restoreStream) notice(text string) {
	_ = r.out.Push(&api.RestoreEvent{Event: &api.RestoreEvent_Notice{Notice: text}})
}

func reportStep(out *api.EventQueue[*api.RestoreEvent], now ckpt.Step) {
	out.PushLatest(now.Phase, &api.RestoreEvent{Event: &api.RestoreEvent_Step{Step: stepMessage(now)}})
}

// reportLoaded reports when all memory is loaded. It returns an error if some cannot be: the
// program runs, and gets an error where it touches that, or was killed.
func (r *restoreStream) reportLoaded(ctx context.Context, program *checkpoints.Restored, begun time.Time) error {
	bytes, err := program.Loaded(ctx)
	if ctx.Err() != nil {
		return nil // the caller has disconnected; the program goes on
	}
	if errors.Is(err, ckpt.ErrMemoryLost) {
		return err
	}
	if err != nil {
		return fmt.Errorf("the program runs, and gets errors where it uses memory that was not loaded: %w", err)
	}
	_ = r.out.Push(loadedMessage(bytes, time.Since(begun)))
	return nil
}

// loadedMessage returns the event that all memory of a restored program is loaded.
func loadedMessage(bytes uint64, took time.Duration) *api.RestoreEvent {
	return &api.RestoreEvent{Event: &api.RestoreEvent_Loaded{Loaded: &api.RestoreLoaded{
		Bytes: bytes, TotalMicroseconds: uint64(took.Microseconds()),
	}}}
}

// follow passes signals on until the root of the tree has ended, and reports how it ended.
func (r *restoreStream) follow(ctx context.Context, tree *restored.Tree, loading <-chan struct{}) error {
	if err := r.quota.follow(); err != nil {
		return err // the program goes on
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		for {
			select {
			case signal := <-r.signals:
				if err := tree.Signal(signal); err != nil {
					r.daemon.log.Debug("signal not delivered", "signal", signal, "error", err)
				}
			case <-ctx.Done():
				return
			}
		}
	}()
	status, err := tree.Wait(ctx)
	if ctx.Err() != nil {
		return nil // the caller has disconnected; the program goes on
	}
	if err != nil && r.daemon.life.Err() != nil {
		return fmt.Errorf("%w: phosd is stopping", api.ErrNoDaemon) // the next one knows the tree
	}
	if err != nil {
		return fmt.Errorf("wait for the program: %w", err)
	}
	cancel()
	<-loading
	setAnswered(ctx)
	return r.out.Push(
		&api.RestoreEvent{Event: &api.RestoreEvent_Ended{Ended: &api.RestoreEnded{Status: int32(status)}}},
	)
}
