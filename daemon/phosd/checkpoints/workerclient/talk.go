package workerclient

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/phos-gpu/phos/ckpt"
	"github.com/phos-gpu/phos/daemon/api"
)

const (
	// stallTime is how long a worker may get no further while it is to do something.
	stallTime = 2 * time.Minute
	// quietTime is how long it may say nothing at all: it gives a sign of life every second. A program
	// that runs gives its worker up after ten seconds; by then the checkpoint must not be in the way
	// any more.
	quietTime = 6 * time.Second
)

// talk is one stream of commands and their answers. Commands come one after the other.
type talk struct {
	stream   saveStream
	cancel   context.CancelFunc
	progress func(ckpt.Step)
	answers  chan *api.SaveDone
	// told is ready when the worker has said anything, moved when it has got further.
	told, moved chan struct{}
	// quiet is quietTime, for tests another one.
	quiet time.Duration
	// failed is why the stream has ended; it may be read once answers is closed.
	failed error
	// owed is how many commands have no answer yet.
	owed int
	// silent is why the worker was given up; nil: it was not.
	silent error
}

type saveStream interface {
	Send(command *api.SaveCommand) error
	Recv() (*api.SaveEvent, error)
	CloseSend() error
}

// begin opens a stream, which outlives the context of the command that opens it.
func begin(ctx context.Context, worker api.WorkerClient, progress func(ckpt.Step)) (*talk, error) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stream, err := worker.Checkpoint(ctx)
	if err != nil {
		cancel()
		return nil, api.FromStatus(err)
	}
	t := &talk{
		stream: stream, cancel: cancel, progress: progress,
		answers: make(chan *api.SaveDone, 1), told: make(chan struct{}, 1), moved: make(chan struct{}, 1), quiet: quietTime,
	}
	go t.listen()
	return t, nil
}

// do gives a command. One that is still owed an answer, because its caller gave up, is waited for
// first. The worker may get no further for as long as stall says.
func (t *talk) do(ctx context.Context, command *api.SaveCommand, stall time.Duration) (*api.SaveDone, error) {
	if err := t.stillSilent(); err != nil {
		return nil, err
	}
	for t.owed > 0 {
		if _, err := t.await(ctx, stall); err != nil {
			return nil, err
		}
	}
	t.owed++
	if err := t.stream.Send(command); err != nil && !errors.Is(err, io.EOF) { // after an EOF Recv knows why
		return nil, api.FromStatus(err)
	}
	return t.await(ctx, stall)
}

// stillSilent says that a worker which was given up has said nothing since. What takes a checkpoint
// back does not wait for it again: the program does not wait that long either.
func (t *talk) stillSilent() error {
	if t.silent == nil {
		return nil
	}
	select {
	case <-t.told:
		t.silent = nil
	default:
	}
	return t.silent
}

// await is the next answer.
func (t *talk) await(ctx context.Context, stall time.Duration) (*api.SaveDone, error) {
	stalled, quiet := time.NewTimer(stall), time.NewTimer(t.quiet)
	defer stalled.Stop()
	defer quiet.Stop()
	for {
		select {
		case done, open := <-t.answers:
			if !open {
				return nil, t.failed
			}
			t.owed--
			return done, nil
		case <-t.told:
			quiet.Reset(t.quiet)
		case <-t.moved:
			stalled.Reset(stall)
		case <-stalled.C:
			return nil, fmt.Errorf("it has got no further for %v: %w", stall, context.DeadlineExceeded)
		case <-quiet.C:
			t.silent = fmt.Errorf("it has given no sign of life for %v: %w", t.quiet, context.DeadlineExceeded)
			return nil, t.silent
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// end waits until the worker has ended its side too.
func (t *talk) end(ctx context.Context) error {
	if err := t.stream.CloseSend(); err != nil {
		return api.FromStatus(err)
	}
	_, err := t.await(ctx, stallTime)
	if errors.Is(err, errEnded) {
		return nil
	}
	return fmt.Errorf("after the end of a checkpoint: %w", err)
}

// errEnded means that the worker has ended the stream.
var errEnded = errors.New("it has ended the checkpoint")

// listen takes what the worker says until its stream ends.
func (t *talk) listen() {
	defer close(t.answers)
	var last *api.SaveProgress
	for {
		event, err := t.stream.Recv()
		if errors.Is(err, io.EOF) {
			t.failed = errEnded
			return
		}
		if err != nil {
			t.failed = api.FromStatus(err)
			return
		}
		now := event.GetProgress()
		ring(t.told)
		if now.GetPhase() != last.GetPhase() || now.GetDoneBytes() != last.GetDoneBytes() {
			ring(t.moved)
		}
		last = now
		if now != nil && t.progress != nil {
			t.progress(ckpt.Step{Phase: now.GetPhase(), DoneBytes: now.GetDoneBytes(), TotalBytes: now.GetTotalBytes()})
		}
		if done := event.GetDone(); done != nil {
			t.answers <- done
		}
	}
}

// ring makes a channel ready, or leaves it so.
func ring(bell chan struct{}) {
	select {
	case bell <- struct{}{}:
	default:
	}
}
