package phosd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"google.golang.org/grpc"

	"github.com/phos-gpu/phos/ckpt"
	"github.com/phos-gpu/phos/daemon/api"
	"github.com/phos-gpu/phos/daemon/phosd/checkpoints"
	"github.com/phos-gpu/phos/internal/linux/proc"
)

// maxTrees is how many trees one checkpoint may save: phosd looks for each, and holds descriptors.
const maxTrees = 1024

// Checkpoint saves process trees.
func (s *service) Checkpoint(stream grpc.BidiStreamingServer[api.CheckpointCommand, api.CheckpointEvent]) (err error) {
	caller, first, err := receiveFirst(stream)
	if err != nil {
		return err
	}
	begin := first.GetBegin()
	if begin == nil {
		return fmt.Errorf("%w: the first command of a checkpoint must be begin", api.ErrInvalid)
	}
	counted, err := s.daemon.track(caller, begin.GetFiles())
	if err != nil {
		return err
	}
	defer counted.done()
	files, err := counted.take(begin.GetFiles())
	if err != nil {
		return err
	}
	if count := len(begin.GetPids()); count > maxTrees {
		return fmt.Errorf("%w: %d programs are named, at most %d are saved at a time", api.ErrInvalid, count, maxTrees)
	}
	roots, err := hostProcesses(caller, begin.GetPids())
	if err != nil {
		return err
	}
	out := &api.EventQueue[*api.CheckpointEvent]{Send: stream.Send}
	defer func() { err = errors.Join(err, out.Flush()) }()
	ctx, cancel := context.WithCancelCause(stream.Context())
	defer cancel(nil)
	commits, verdicts := make(chan struct{}, 1), make(chan *api.CheckpointVerdict, 1)
	go receiveCheckpointCommands(stream, commits, verdicts, cancel)
	request := checkpoints.Request{
		Caller: caller, Begin: begin, Roots: roots, Files: files,
		Progress: func(now ckpt.Step) {
			out.PushLatest(now.Phase, &api.CheckpointEvent{Event: &api.CheckpointEvent_Step{Step: stepMessage(now)}})
		},
		Notice: func(text string) {
			_ = out.Push(&api.CheckpointEvent{Event: &api.CheckpointEvent_Notice{Notice: text}})
		},
	}
	if begin.GetHold() {
		request.Hold = func(ctx context.Context) error {
			if err := out.Push(&api.CheckpointEvent{Event: &api.CheckpointEvent_Held{Held: &api.CheckpointHeld{}}}); err != nil {
				return err
			}
			return awaitCommit(ctx, commits)
		}
	}
	if begin.GetTogether() {
		request.Meet = func(ctx context.Context, now ckpt.Arrival) error {
			if err := out.Push(arrivalEvent(now)); err != nil {
				return err
			}
			return awaitVerdict(ctx, verdicts)
		}
	}
	saved, err := s.daemon.checkpoints.Checkpoint(ctx, request)
	if err != nil {
		return err
	}
	setAnswered(ctx)
	return out.Push(&api.CheckpointEvent{Event: &api.CheckpointEvent_Done{Done: doneMessage(saved)}})
}

// receiveCheckpointCommands receives the caller's commands during a checkpoint.
func receiveCheckpointCommands(
	stream grpc.BidiStreamingServer[api.CheckpointCommand, api.CheckpointEvent],
	commits chan<- struct{},
	verdicts chan<- *api.CheckpointVerdict,
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
			cancel(checkpoints.ErrCanceled)
		case command.GetCommit() != nil:
			trySend(commits, struct{}{})
		case command.GetVerdict() != nil:
			trySend(verdicts, command.GetVerdict())
		}
	}
}

// arrivalEvent tells the caller that the checkpoint waits for the others of its cut.
func arrivalEvent(now ckpt.Arrival) *api.CheckpointEvent {
	arrival := &api.CheckpointArrival{Point: string(now.At)}
	if now.Busy != nil {
		arrival.Busy = api.Text(now.Busy)
	}
	if now.Saved != nil {
		arrival.Saved = doneMessage(now.Saved)
	}
	return &api.CheckpointEvent{Event: &api.CheckpointEvent_Arrival{Arrival: arrival}}
}

// awaitVerdict waits until the caller says how a cut goes on.
func awaitVerdict(ctx context.Context, verdicts <-chan *api.CheckpointVerdict) error {
	select {
	case verdict := <-verdicts:
		if verdict.GetAgain() {
			return ckpt.Busy(errors.New("another program of the cut was busy"))
		}
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// trySend sends a value unless the channel is full.
func trySend[T any](to chan<- T, value T) {
	select {
	case to <- value:
	default:
	}
}

// awaitCommit waits for the caller's commit.
func awaitCommit(ctx context.Context, commits <-chan struct{}) error {
	select {
	case <-commits:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("no commit received: %w", context.Cause(ctx))
	}
}

func stepMessage(now ckpt.Step) *api.Step {
	return &api.Step{Phase: now.Phase, DoneBytes: now.DoneBytes, TotalBytes: now.TotalBytes}
}

// doneMessage returns the last message of a successful checkpoint.
func doneMessage(saved *ckpt.CheckpointResult) *api.CheckpointDone {
	m := saved.Manifest
	return &api.CheckpointDone{
		Generation:        m.Generation,
		PauseMicroseconds: uint64(saved.Pause.Microseconds()),
		TotalMicroseconds: uint64(saved.Total.Microseconds()),
		WrittenBytes:      m.Stats.WrittenBytes,
		SharedBytes:       m.Stats.SharedBytes,
		GpuWrittenBytes:   saved.GPUWrittenBytes,
		MemoryBytes:       saved.MemoryBytes,
		Processes:         uint64(len(m.Processes)),
		TookMicroseconds:  durations(saved),
	}
}

// durations returns how long each step took, what the last pause was spent on, and the pause, which
// is not a step: the attempts before the last one, and the waits between them, are not a part of
// it.
func durations(saved *ckpt.CheckpointResult) map[string]uint64 {
	took := map[string]uint64{"pause": uint64(saved.Pause.Microseconds())}
	for _, steps := range []map[string]time.Duration{saved.Took, saved.Paused} {
		for name, each := range steps {
			took[name] = uint64(each.Microseconds())
		}
	}
	return took
}

// hostProcesses returns the processes that a caller names by their pids.
func hostProcesses(caller api.Caller, pids []uint32) ([]proc.Identity, error) {
	found := make([]proc.Identity, len(pids))
	for i, pid := range pids {
		var err error
		if found[i], err = caller.HostProcess(pid); err != nil {
			return nil, err
		}
	}
	return found, nil
}
