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
	// stallTimeout is how long a worker may make no progress with a command.
	stallTimeout = 2 * time.Minute
	// silenceTimeout is how long it may send nothing: it sends a heartbeat every second. A running
	// program gives up on its worker after ten seconds; by then the checkpoint must have ended.
	silenceTimeout = 6 * time.Second
)

// commandStream is a stream of commands and their answers. Commands are sent one at a time.
type commandStream struct {
	stream   saveStream
	cancel   context.CancelFunc
	progress func(ckpt.Step)
	answers  chan *api.SaveDone
	// received is signalled when the worker has sent anything, progressed when it has made progress.
	received, progressed chan struct{}
	// silence is silenceTimeout; tests change it.
	silence time.Duration
	// failed is why the stream has ended; it may be read once answers is closed.
	failed error
	// unanswered is how many commands have no answer yet.
	unanswered int
	// silent is the error of a worker that timed out; nil: it did not.
	silent error
}

type saveStream interface {
	Send(command *api.SaveCommand) error
	Recv() (*api.SaveEvent, error)
	CloseSend() error
}

// openStream opens a stream. It outlives the context of the command that opens it.
func openStream(ctx context.Context, worker api.WorkerClient, progress func(ckpt.Step)) (*commandStream, error) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stream, err := worker.Checkpoint(ctx)
	if err != nil {
		cancel()
		return nil, api.FromStatus(err)
	}
	t := &commandStream{
		stream: stream, cancel: cancel, progress: progress,
		answers: make(chan *api.SaveDone, 1), received: make(chan struct{}, 1), progressed: make(chan struct{}, 1), silence: silenceTimeout,
	}
	go t.receive()
	return t, nil
}

// do sends a command and waits for its answer. If an earlier command is unanswered, because its
// caller was cancelled, do waits for that answer first. The worker may make no progress for as long
// as stall.
func (t *commandStream) do(ctx context.Context, command *api.SaveCommand, stall time.Duration) (*api.SaveDone, error) {
	if err := t.checkSilent(); err != nil {
		return nil, err
	}
	for t.unanswered > 0 {
		if _, err := t.await(ctx, stall); err != nil {
			return nil, err
		}
	}
	t.unanswered++
	if err := t.stream.Send(command); err != nil && !errors.Is(err, io.EOF) { // after EOF, Recv returns the reason
		return nil, api.FromStatus(err)
	}
	return t.await(ctx, stall)
}

// checkSilent returns the timeout of a worker that has sent nothing since. The commands that revert
// a checkpoint do not wait for it again, because the program does not wait that long either.
func (t *commandStream) checkSilent() error {
	if t.silent == nil {
		return nil
	}
	select {
	case <-t.received:
		t.silent = nil
	default:
	}
	return t.silent
}

// await returns the next answer.
func (t *commandStream) await(ctx context.Context, stall time.Duration) (*api.SaveDone, error) {
	stalled, silent := time.NewTimer(stall), time.NewTimer(t.silence)
	defer stalled.Stop()
	defer silent.Stop()
	for {
		select {
		case done, open := <-t.answers:
			if !open {
				return nil, t.failed
			}
			t.unanswered--
			return done, nil
		case <-t.received:
			silent.Reset(t.silence)
		case <-t.progressed:
			stalled.Reset(stall)
		case <-stalled.C:
			return nil, fmt.Errorf("it has made no progress for %v: %w", stall, context.DeadlineExceeded)
		case <-silent.C:
			t.silent = fmt.Errorf("it has sent nothing for %v: %w", t.silence, context.DeadlineExceeded)
			return nil, t.silent
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// end closes the stream and waits until the worker has ended it too.
func (t *commandStream) end(ctx context.Context) error {
	if err := t.stream.CloseSend(); err != nil {
		return api.FromStatus(err)
	}
	_, err := t.await(ctx, stallTimeout)
	if errors.Is(err, errEnded) {
		return nil
	}
	return fmt.Errorf("after the end of a checkpoint: %w", err)
}

// errEnded is the error of a stream that the worker has ended.
var errEnded = errors.New("it has ended the checkpoint")

// receive receives the worker's events until the stream ends.
func (t *commandStream) receive() {
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
		signal(t.received)
		if now.GetPhase() != last.GetPhase() || now.GetDoneBytes() != last.GetDoneBytes() {
			signal(t.progressed)
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

// signal makes a channel ready to receive from.
func signal(to chan struct{}) {
	select {
	case to <- struct{}{}:
	default:
	}
}
