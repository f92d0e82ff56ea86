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
	// closedTime is how long the gate may be closed before the cut command comes. Freezing a program
	// takes milliseconds.
	closedTime = time.Minute
	// reportTime is the interval between progress reports.
	reportTime = 100 * time.Millisecond
	// beatTime is the interval between heartbeats. phosd considers a worker without heartbeats stuck.
	beatTime = time.Second
)

// errOrder is returned when a command comes before one that it depends on.
var errOrder = fmt.Errorf("%w: commands of a checkpoint out of order", api.ErrInvalid)

// Checkpoint saves the session. When the stream ends, for any reason, the program resumes.
func (c *control) Checkpoint(stream grpc.BidiStreamingServer[api.SaveCommand, api.SaveEvent]) error {
	if err := rootOnly(stream.Context()); err != nil {
		return api.ToStatus(err)
	}
	return api.ToStatus(c.worker.checkpoint(stream))
}

// checkpoint executes phosd's commands until the stream ends. A panic fails only the checkpoint.
func (w *Worker) checkpoint(stream grpc.BidiStreamingServer[api.SaveCommand, api.SaveEvent]) (err error) {
	if !w.checkpointing.TryLock() {
		w.discard(stream)
		return fmt.Errorf("%w: another checkpoint of this program is in progress", api.ErrExhausted)
	}
	defer w.checkpointing.Unlock()
	ctx, cancel := context.WithCancel(stream.Context())
	defer cancel()
	s := &workerCheckpoint{worker: w, events: &events{stream: stream}}
	defer s.close()
	defer func() {
		if fault := recover(); fault != nil {
			w.log.Error("panic in checkpoint; program resumes", "panic", fault, "stack", string(debug.Stack()))
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
		if err := s.execute(ctx, command); err != nil {
			w.log.Warn("checkpoint failed", "error", err)
			return err
		}
	}
}

// discard takes and closes the files of a checkpoint that is refused. Otherwise they would stay in
// the token store, which holds only a few.
func (w *Worker) discard(stream grpc.BidiStreamingServer[api.SaveCommand, api.SaveEvent]) {
	first, err := stream.Recv()
	if err != nil {
		return
	}
	caller, err := api.CallerOf(stream.Context())
	if err != nil {
		return
	}
	files, _ := w.tokens.Take(first.GetBegin().GetFiles(), caller)
	for _, file := range files {
		_ = file.Close()
	}
}

// received is one result of stream.Recv.
type received struct {
	command *api.SaveCommand
	err     error
}

// receive reads commands from the stream into a channel until the stream fails or ctx ends.
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

// next waits for a command. While the gate is closed it waits at most closedTime, because the
// program waits too.
func (s *workerCheckpoint) next(ctx context.Context, commands <-chan received) (*api.SaveCommand, error) {
	var impatient <-chan time.Time
	if s.phase == quiesced {
		impatient = time.After(closedTime)
	}
	select {
	case got := <-commands:
		return got.command, got.err
	case <-ctx.Done(): // phosd has gone away
		return nil, ctx.Err()
	case <-impatient:
		return nil, fmt.Errorf("%w: gate was closed for %s without a cut command", context.DeadlineExceeded, closedTime)
	case <-s.worker.over:
		return nil, fmt.Errorf("%w: the session ends", api.ErrNoProgram)
	}
}

// execute runs a command and answers it. Busy is an answer; every other error ends the checkpoint.
func (s *workerCheckpoint) execute(ctx context.Context, command *api.SaveCommand) error {
	done := &api.SaveDone{}
	var err error
	switch what := command.GetCommand().(type) {
	case *api.SaveCommand_Begin:
		err = s.begin(ctx, what.Begin)
	case *api.SaveCommand_Quiesce:
		err = s.quiesce(ctx, what.Quiesce)
	case *api.SaveCommand_Cut:
		err = s.cut(ctx, milliseconds(what.Cut.GetDeadlineMilliseconds()))
	case *api.SaveCommand_Resume:
		err = s.resume()
	case *api.SaveCommand_Finish:
		done.Result, err = s.finish(ctx)
	default:
		err = fmt.Errorf("%w: unknown command", api.ErrInvalid)
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

// milliseconds returns count milliseconds, but at most a day: the product must not overflow.
func milliseconds(count uint64) time.Duration {
	const maxTime = 24 * time.Hour
	return time.Duration(min(count, uint64(maxTime.Milliseconds()))) * time.Millisecond
}

// events sends the events of a checkpoint. It is safe for concurrent use.
type events struct {
	mu     sync.Mutex
	stream grpc.BidiStreamingServer[api.SaveCommand, api.SaveEvent]
	now    *api.SaveProgress
	last   time.Time
	closed bool
}

func (e *events) send(event *api.SaveEvent) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.stream.Send(event)
}

// progress reports progress at most every reportTime. Send errors are ignored; the answer to the
// command will fail too.
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

// tell sends the last progress. The caller holds e.mu.
func (e *events) tell() {
	if !e.closed {
		_ = e.stream.Send(&api.SaveEvent{Event: &api.SaveEvent_Progress{Progress: e.now}})
	}
}

// beat repeats the last report every beatTime, as a heartbeat.
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

// end stops all progress reports. It is called before the stream ends.
func (e *events) end() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.closed = true
}
