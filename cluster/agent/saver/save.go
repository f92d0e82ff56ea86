package saver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/phos-gpu/phos/ckpt/store"
	"github.com/phos-gpu/phos/daemon/api"
	"github.com/phos-gpu/phos/daemon/api/fdtoken"
)

// SaveMain is the main function of a save. It returns the exit status.
func SaveMain() int {
	agent := conversation{json.NewDecoder(os.Stdin), json.NewEncoder(os.Stdout)}
	var order SaveOrder
	if err := agent.in.Decode(&order); err != nil {
		fmt.Fprintln(os.Stderr, "the agent starts saves, with an order as standard input:", err)
		return 2
	}
	saved, err := save(context.Background(), order, agent)
	if err != nil {
		saved = Saved{Error: err.Error()}
	}
	if err := agent.out.Encode(told{Saved: &saved}); err != nil {
		return 1
	}
	return 0
}

// conversation is a save's connection to its agent.
type conversation struct {
	in  *json.Decoder
	out *json.Encoder
}

// arrive says that the save waits for the others of the cut.
func (c conversation) arrive(arrival *api.CheckpointArrival) error {
	now := Arrival{Point: arrival.GetPoint(), Busy: arrival.GetBusy()}
	if done := arrival.GetSaved(); done != nil {
		saved := savedOf(done)
		now.Saved = &saved
	}
	if err := c.out.Encode(told{Arrival: &now}); err != nil {
		return err
	}
	return nil
}

// answer reads how the cut goes on.
func (c conversation) answer() (*api.CheckpointCommand, error) {
	var answer verdict
	if err := c.in.Decode(&answer); err != nil {
		return nil, fmt.Errorf("the agent has not said how the cut goes on: %w", err)
	}
	if answer.Cancel {
		return &api.CheckpointCommand{Command: &api.CheckpointCommand_Cancel{Cancel: &api.CheckpointCancel{}}}, nil
	}
	return &api.CheckpointCommand{Command: &api.CheckpointCommand_Verdict{
		Verdict: &api.CheckpointVerdict{Again: answer.Again},
	}}, nil
}

// save takes a checkpoint, and then removes old generations.
func save(ctx context.Context, order SaveOrder, agent conversation) (Saved, error) {
	dir, err := makeDirectory(order.Dir)
	if err != nil {
		return Saved{}, err
	}
	defer dir.Close()
	if err := order.Root.Check(); err != nil {
		return Saved{}, fmt.Errorf("pid %d: %w", order.Root.PID, err)
	}
	done, err := checkpoint(ctx, order, dir, agent)
	if err != nil {
		return Saved{}, err
	}
	prune(ctx, dir, &order)
	return savedOf(done), nil
}

// savedOf returns what an agent is told of an image.
func savedOf(done *api.CheckpointDone) Saved {
	return Saved{
		Generation: done.GetGeneration(), At: time.Now().UTC(),
		Pause: time.Duration(done.GetPauseMicroseconds()) * time.Microsecond,
		Bytes: done.GetMemoryBytes(), Written: done.GetWrittenBytes(),
	}
}

// makeDirectory opens an image directory, or makes it.
func makeDirectory(path string) (*os.File, error) {
	if err := os.Mkdir(path, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
		if _, missing := os.Stat(filepath.Dir(path)); missing != nil {
			return nil, fmt.Errorf("image directory: %w: create %s on all nodes first", missing, filepath.Dir(path))
		}
		return nil, fmt.Errorf("image directory: %w", err)
	}
	dir, err := os.OpenFile(path, os.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return nil, fmt.Errorf("image directory: %w", err)
	}
	return dir, nil
}

// checkpoint asks phosd for a checkpoint, and waits for it.
func checkpoint(ctx context.Context, order SaveOrder, dir *os.File, agent conversation) (*api.CheckpointDone, error) {
	client, err := api.Dial(order.Socket)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	token, err := fdtoken.Send(ctx, order.Socket, []*os.File{dir})
	if err != nil {
		return nil, err
	}
	stream, err := client.Daemon.Checkpoint(ctx)
	if err != nil {
		return nil, api.FromStatus(err)
	}
	// If it fails, Recv returns the reason.
	_ = stream.Send(&api.CheckpointCommand{Command: &api.CheckpointCommand_Begin{Begin: &api.CheckpointBegin{
		Pids: []uint32{uint32(order.Root.PID)}, Files: token, Stop: order.Stop, Together: order.Together,
		Connections: order.Connections,
	}}})
	for {
		event, err := stream.Recv()
		if err != nil {
			return nil, api.FromStatus(err)
		}
		if done := event.GetDone(); done != nil {
			return done, nil
		}
		if arrival := event.GetArrival(); arrival != nil {
			if err := agent.arrive(arrival); err != nil {
				return nil, err // phosd undoes the checkpoint
			}
			go func() { // phosd may give up before
				if answer, err := agent.answer(); err == nil {
					_ = stream.Send(answer) // Recv returns the reason
				} else {
					_ = client.Close() // which undoes the checkpoint
				}
			}()
		}
	}
}

// prune removes old generations. What stays is removed after the next save.
func prune(ctx context.Context, dir *os.File, order *SaveOrder) {
	if order.Keep == 0 {
		return
	}
	opened, err := store.Open(dir)
	if err == nil {
		keep := store.Keep{Newest: order.Keep}
		if all, _ := opened.Generations(); slices.Contains(all, order.Needed) {
			keep.Generations = []uint64{order.Needed}
		}
		_, err = opened.Prune(ctx, keep)
		opened.Close()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "old generations stay:", err)
	}
}
