package migrate

import (
	"context"
	"fmt"
	"os"

	"github.com/phos-gpu/phos/daemon/api"
	"github.com/phos-gpu/phos/daemon/api/fdtoken"
)

// save saves the program, and ends it if stop is set. When the context ends it is undone: the
// program runs on.
func (m *migration) save(ctx context.Context, stop bool) (*api.CheckpointDone, error) {
	token, err := fdtoken.Send(ctx, api.Socket(), []*os.File{m.dir})
	if err != nil {
		return nil, err
	}
	stream, err := m.client.Daemon.Checkpoint(context.WithoutCancel(ctx))
	if err != nil {
		return nil, api.FromStatus(err)
	}
	// If it fails, Recv returns the reason.
	_ = stream.Send(&api.CheckpointCommand{Command: &api.CheckpointCommand_Begin{Begin: &api.CheckpointBegin{
		Pids: []uint32{uint32(m.pid)}, Files: token, Stop: stop,
	}}})
	defer context.AfterFunc(ctx, func() {
		_ = stream.Send(&api.CheckpointCommand{Command: &api.CheckpointCommand_Cancel{Cancel: &api.CheckpointCancel{}}})
	})()
	for {
		event, err := stream.Recv()
		switch {
		case err != nil && ended(m.program):
			return nil, api.FromStatus(err)
		case err != nil && ctx.Err() != nil:
			return nil, fmt.Errorf("cancelled: pid %d runs on where it was", m.pid)
		case err != nil:
			return nil, fmt.Errorf("pid %d runs on where it was: %w", m.pid, api.FromStatus(err))
		case event.GetDone() != nil:
			return event.GetDone(), nil
		}
		m.step(event.GetStep())
		m.notice(event.GetNotice())
	}
}
