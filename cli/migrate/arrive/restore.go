package arrive

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"google.golang.org/grpc"

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
	ran := false
	for {
		event, err := stream.Recv()
		switch {
		case err != nil && ran:
			return nil //nolint:nilerr // phosd has ended; the next one loads what is left
		case err != nil:
			return api.FromStatus(err)
		case event.GetHeld() != nil:
			if err := a.awaitGo(stream); err != nil {
				return err
			}
		case event.GetRunning() != nil:
			ran = true
			if err := a.runs(event.GetRunning().GetPid()); err != nil {
				return err
			}
		case event.GetLoaded() != nil, event.GetEnded() != nil:
			return a.finish()
		default:
			a.pass(event)
		}
	}
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
func (a *arrival) awaitGo(stream grpc.BidiStreamingClient[api.RestoreCommand, api.RestoreEvent]) error {
	if err := a.conn.Send(wire.Message{Kind: wire.Ready}); err != nil {
		return err
	}
	said, err := a.conn.Receive()
	if err == nil && said.Kind != wire.Go {
		err = fmt.Errorf("%w: %s", wire.ErrForeign, said.Kind)
	}
	if err != nil {
		return fmt.Errorf("the source has given up: %w", err)
	}
	if err := decide(a.dir); err != nil {
		return err
	}
	return stream.Send(&api.RestoreCommand{Command: &api.RestoreCommand_Commit{Commit: &api.RestoreCommit{}}})
}

// runs writes down that the program runs, and tells the source.
func (a *arrival) runs(pid uint32) error {
	path := filepath.Join(a.dir, runningName)
	err := os.WriteFile(path+".new", []byte(strconv.FormatUint(uint64(pid), 10)), 0o600)
	if err == nil {
		err = os.Rename(path+".new", path)
	}
	return errors.Join(err, a.conn.Send(wire.Message{Kind: wire.Running, PID: pid}))
}

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
