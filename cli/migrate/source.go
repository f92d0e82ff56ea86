package migrate

import (
	"context"
	"fmt"
	"os"
	"sync"

	"google.golang.org/grpc"

	"github.com/phos-gpu/phos/daemon/api"
	"github.com/phos-gpu/phos/daemon/api/fdtoken"
)

// saveOrder says how the program is saved.
type saveOrder struct {
	// stop ends it.
	stop bool
	// paused, if not nil, is called when the program is about to stand still.
	paused func()
	// handOff, if not nil, is called when the image is complete and the program stands still. If it
	// fails, the program runs on.
	handOff func(context.Context) error
	// verdict is set once the program may end: the image is complete, and phosd was told so.
	verdict bool
}

// save saves the program. When the context ends it is undone: the program runs on.
func (m *migration) save(ctx context.Context, order *saveOrder) (*api.CheckpointDone, error) {
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
		Pids: []uint32{uint32(m.pid)}, Files: token, Stop: order.stop, Together: order.handOff != nil,
	}}})
	commands := &commands{to: stream}
	defer context.AfterFunc(ctx, commands.cancel)()
	var refused error
	for {
		event, err := stream.Recv()
		switch {
		case err != nil && refused != nil:
			return nil, fmt.Errorf("pid %d runs on where it was: %w", m.pid, refused)
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
		if arrival := event.GetArrival(); arrival != nil && refused == nil {
			refused = order.goOn(ctx, commands, arrival)
		}
	}
}

// The points of an api.CheckpointArrival at which there is something to do.
const (
	pointReady    = "ready"
	pointComplete = "complete"
)

// goOn lets a checkpoint go on, or cancels it and returns why.
func (s *saveOrder) goOn(ctx context.Context, commands *commands, at *api.CheckpointArrival) (err error) {
	switch at.GetPoint() {
	case pointReady:
		s.paused()
	case pointComplete:
		err = s.handOff(ctx)
	}
	if err != nil {
		commands.cancel()
		return err
	}
	s.verdict = s.verdict || at.GetPoint() == pointComplete
	commands.send(&api.CheckpointCommand{Command: &api.CheckpointCommand_Verdict{
		Verdict: &api.CheckpointVerdict{Again: at.GetBusy() != ""},
	}})
	return nil
}

// commands sends what a checkpoint is told after its beginning. If that fails, the stream's Recv
// returns the reason.
type commands struct {
	mu sync.Mutex // guards to
	to grpc.BidiStreamingClient[api.CheckpointCommand, api.CheckpointEvent]
}

func (c *commands) send(command *api.CheckpointCommand) {
	c.mu.Lock()
	defer c.mu.Unlock()
	_ = c.to.Send(command)
}

func (c *commands) cancel() {
	c.send(&api.CheckpointCommand{Command: &api.CheckpointCommand_Cancel{Cancel: &api.CheckpointCancel{}}})
}
