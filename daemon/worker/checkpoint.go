package worker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime/debug"
	"sync"
	"time"

	"google.golang.org/grpc"

	"github.com/phos-gpu/phos/daemon/api"
)

const (
	// shutTime is how long the gate may be shut before the cut comes: freezing a program takes
	// milliseconds.
	shutTime = time.Minute
	// reportTime is between two reports of how far a command is.
	reportTime = 100 * time.Millisecond
	// beatTime is between two signs of life: a worker that gives none stands still, whatever it is at.
	beatTime = time.Second
)

// errOrder means that a command came before the one that it builds on.
var errOrder = fmt.Errorf("%w: commands of a checkpoint out of order", api.ErrInvalid)

// Checkpoint saves the session. Whatever ends the stream, the program goes on afterwards.
func (c *control) Checkpoint(stream grpc.BidiStreamingServer[api.SaveCommand, api.SaveEvent]) error {
	if err := rootOnly(stream.Context()); err != nil {
		return api.ToStatus(err)
	}
	return api.ToStatus(c.worker.checkpoint(stream))
}

func (w *Worker) checkpoint(stream grpc.BidiStreamingServer[api.SaveCommand, api.SaveEvent]) (err error) {
	if !w.checkpointing.TryLock() {
		w.discard(stream)
		return fmt.Errorf("%w: another checkpoint of this program is under way", api.ErrExhausted)
	}
	defer w.checkpointing.Unlock()
	ctx, cancel := context.WithCancel(stream.Context())
	defer cancel()
	s := &saving{worker: w, events: &events{stream: stream}}
	defer s.close()
	defer func() {
		if fault := recover(); fault != nil {
			w.log.Error("panic in a checkpoint; the program goes on", "panic", fault, "stack", string(debug.Stack()))
			err = fmt.Errorf("%w: %v", errFault, fault)
		}
	}()
	commands := receive(ctx, stream)
	go s.events.beat(ctx)
	defer s.events.end()
	for {
		command, err := s.next(ctx, commands)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := s.obey(ctx, command); err != nil {
			w.log.Warn("checkpoint", "error", err)
			return err
		}
	}
}

// discard takes the files of a checkpoint that cannot be now: nobody else would, and there is room
// for few that wait.
func (w *Worker) discard(stream grpc.BidiStreamingServer[api.SaveCommand, api.SaveEvent]) {
	first, err := stream.Recv()
	if err != nil {
		return
	}
	actor, err := api.ActorOf(stream.Context())
	if err != nil {
		return
	}
	files, _ := w.desk.Take(first.GetBegin().GetFiles(), actor)
	for _, file := range files {
		_ = file.Close()
	}
}

// received is what a stream brings.
type received struct {
	command *api.SaveCommand
	err     error
}

func receive(ctx context.Context, stream grpc.BidiStreamingServer[api.SaveCommand, api.SaveEvent]) <-chan received {
	commands := make(chan received)
	go func() {
		for {
			command, err := stream.Recv()
			select {
			case commands <- received{command, err}:
			case <-ctx.Done():
				return
			}
			if err != nil {
				return
			}
		}
	}()
	return commands
}

// next waits for a command, and not for long while the program waits too.
func (s *saving) next(ctx context.Context, commands <-chan received) (*api.SaveCommand, error) {
	var impatient <-chan time.Time
	if s.at == shut {
		impatient = time.After(shutTime)
	}
	select {
	case got := <-commands:
		return got.command, got.err
	case <-ctx.Done(): // whoever asked is gone
		return nil, ctx.Err()
	case <-impatient:
		return nil, fmt.Errorf("%w: the gate has been shut for %s and no cut comes", context.DeadlineExceeded, shutTime)
	case <-s.worker.over:
		return nil, fmt.Errorf("%w: its session ends", api.ErrNoProgram)
	}
}

// obey carries a command out and answers it. What is busy is an answer, everything else that fails
// ends the checkpoint.
func (s *saving) obey(ctx context.Context, command *api.SaveCommand) error {
	done := &api.SaveDone{}
	var err error
	switch what := command.GetCommand().(type) {
	case *api.SaveCommand_Begin:
		err = s.begin(ctx, what.Begin)
	case *api.SaveCommand_Quiesce:
		err = s.quiesce(ctx, milliseconds(what.Quiesce.GetDeadlineMilliseconds()))
	case *api.SaveCommand_Cut:
		err = s.cut(ctx, milliseconds(what.Cut.GetDeadlineMilliseconds()))
	case *api.SaveCommand_Resume:
		err = s.resume()
	case *api.SaveCommand_Finish:
		done.Result, err = s.finish(ctx)
	default:
		err = fmt.Errorf("%w: no such command", api.ErrInvalid)
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if errors.Is(err, errBusy) {
		done.Busy, err = err.Error(), nil
	}
	if err != nil {
		return err
	}
	return s.events.send(&api.SaveEvent{Event: &api.SaveEvent_Done{Done: done}})
}

func milliseconds(count uint64) time.Duration {
	const most = 24 * time.Hour
	return time.Duration(min(count, uint64(most.Milliseconds()))) * time.Millisecond
}

// events sends what a checkpoint reports; any goroutine may.
type events struct {
	mu     sync.Mutex
	stream grpc.BidiStreamingServer[api.SaveCommand, api.SaveEvent]
	now    *api.SaveProgress
	last   time.Time
	over   bool
}

func (e *events) send(event *api.SaveEvent) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.stream.Send(event)
}

// progress reports now and then. Whether anybody hears it is found out by the answer.
func (e *events) progress(phase string, done, total uint64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	now := time.Now()
	if phase == e.now.GetPhase() && done < total && now.Sub(e.last) < reportTime {
		return
	}
	e.now, e.last = &api.SaveProgress{Phase: phase, DoneBytes: done, TotalBytes: total}, now
	e.tell()
}

func (e *events) tell() {
	if !e.over {
		_ = e.stream.Send(&api.SaveEvent{Event: &api.SaveEvent_Progress{Progress: e.now}})
	}
}

// beat repeats the last report.
func (e *events) beat(ctx context.Context) {
	tick := time.NewTicker(beatTime)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		e.mu.Lock()
		if e.now != nil {
			e.tell()
		}
		e.mu.Unlock()
	}
}

// end is before the stream ends: nothing is sent afterwards.
func (e *events) end() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.over = true
}
