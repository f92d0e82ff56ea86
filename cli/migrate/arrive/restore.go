package arrive

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/phos-gpu/phos/ckpt/store"
	"github.com/phos-gpu/phos/cli/migrate/wire"
	"github.com/phos-gpu/phos/daemon/api"
	"github.com/phos-gpu/phos/daemon/api/fdtoken"
)

// send hands the directory of an image to phosd.
func (a *arrival) send(ctx context.Context, image *os.File) ([]byte, error) {
	return fdtoken.Send(ctx, api.Socket(), []*os.File{image})
}

// restore restores the program, waits frozen for the source's go, and returns when all memory is
// loaded.
func (a *arrival) restore(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	begin, err := a.begin(ctx)
	if err != nil {
		return err
	}
	stream, err := a.client.Daemon.Restore(ctx)
	if err != nil {
		return api.FromStatus(err)
	}
	// If it fails, Recv returns the reason.
	_ = stream.Send(&api.RestoreCommand{Command: &api.RestoreCommand_Begin{Begin: begin}})
	events := listen(ctx, stream)
	for ran := false; ; {
		next := <-events
		switch event := next.event; {
		case next.err != nil:
			return a.ended(next.err, ran)
		case event.GetHeld() != nil:
			if err := a.awaitGo(stream, events); err != nil {
				return err
			}
		case event.GetRunning() != nil:
			ran = true
			pid := event.GetRunning().GetPid()
			err := errors.Join(a.decision.runs(pid), a.conn.Send(wire.Message{Kind: wire.Running, PID: pid}))
			if err != nil {
				return err
			}
		case event.GetLoaded() != nil, event.GetEnded() != nil:
			return a.finish()
		default:
			a.pass(event)
		}
	}
}

// said is what phosd says of a restore.
type said struct {
	event *api.RestoreEvent
	err   error
}

// listen receives what phosd says, until an error. The context is the listener's: that of the
// stream ends with an error, too, which must be heard.
func listen(
	ctx context.Context,
	stream grpc.BidiStreamingClient[api.RestoreCommand, api.RestoreEvent],
) <-chan said {
	events := make(chan said, 1)
	go func() {
		for {
			event, err := stream.Recv()
			select {
			case events <- said{event, err}:
			case <-ctx.Done():
				return
			}
			if err != nil {
				return
			}
		}
	}()
	return events
}

// ended returns the error of a restore whose stream has ended. What phosd itself has said is final:
// it has undone the restore, or the program runs without memory that is lost. A phosd that has
// ended says nothing, and the next one goes on with what was taken.
func (a *arrival) ended(err error, ran bool) error {
	silent := slices.Contains([]codes.Code{codes.Unavailable, codes.Canceled}, status.Code(err))
	if silent && ran {
		const text = "phosd has ended; the next one loads what is left of the memory"
		return errors.Join(a.conn.Send(wire.Message{Kind: wire.Notice, Text: text}), a.finish())
	}
	if !silent && !ran && a.decision.is(takenName) {
		return errors.Join(api.FromStatus(err), a.decision.undo())
	}
	return api.FromStatus(err)
}

// begin returns the request.
func (a *arrival) begin(ctx context.Context) (*api.RestoreBegin, error) {
	opened, err := store.Open(a.image)
	if err != nil {
		return nil, err
	}
	defer opened.Close()
	manifest, err := opened.Inspect(0)
	if err != nil {
		return nil, err
	}
	begin := &api.RestoreBegin{
		Detach: true, Hold: true, HoldRestored: true, Generation: manifest.Generation, Gpus: a.gpus,
		NewPids: a.hello.NewPids, TrustSeal: os.Getuid() == 0,
	}
	begin.Files, err = a.send(ctx, a.image)
	return begin, err
}

// awaitGo tells the source that the program is restored, and lets it run when the source says so.
func (a *arrival) awaitGo(
	stream grpc.BidiStreamingClient[api.RestoreCommand, api.RestoreEvent],
	events <-chan said,
) error {
	a.ready = true
	if err := a.conn.Send(wire.Message{Kind: wire.Ready}); err != nil {
		return err
	}
	source := make(chan error, 1)
	go func() {
		said, err := a.conn.Receive()
		if err == nil && said.Kind != wire.Go {
			err = fmt.Errorf("%w: %s", wire.ErrForeign, said.Kind)
		}
		source <- err
	}()
	select {
	case next := <-events: // it waits no longer
		return cmp.Or(api.FromStatus(next.err), errNotHeld)
	case err := <-source:
		if err != nil {
			return fmt.Errorf("the source has given up: %w", err)
		}
	}
	if err := a.decision.take(); err != nil {
		return err
	}
	return stream.Send(&api.RestoreCommand{Command: &api.RestoreCommand_Commit{Commit: &api.RestoreCommit{}}})
}

// errNotHeld is returned when phosd has not waited for the source.
var errNotHeld = errors.New("phosd has not waited with the program")

// finish tells the source that all is loaded, and waits until it knows.
func (a *arrival) finish() error {
	if err := a.conn.Send(wire.Message{Kind: wire.Loaded}); err != nil {
		return err
	}
	_, err := a.conn.Receive()
	return err
}

// pass tells the source how far the restore is. It hears of a broken connection elsewhere.
func (a *arrival) pass(event *api.RestoreEvent) {
	if step := event.GetStep(); step != nil {
		_ = a.conn.Send(wire.Message{
			Kind: wire.Step, Phase: step.GetPhase(), DoneBytes: step.GetDoneBytes(), TotalBytes: step.GetTotalBytes(),
		})
	}
	if text := event.GetNotice(); text != "" {
		_ = a.conn.Send(wire.Message{Kind: wire.Notice, Text: text})
	}
}
