package saver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/phos-gpu/phos/ckpt/store"
	"github.com/phos-gpu/phos/daemon/api"
	"github.com/phos-gpu/phos/daemon/api/fdtoken"
)

// SaveMain is the main function of a save. It returns the exit status.
func SaveMain() int {
	var order SaveOrder
	if err := json.NewDecoder(os.Stdin).Decode(&order); err != nil {
		fmt.Fprintln(os.Stderr, "the agent starts saves, with an order as standard input:", err)
		return 2
	}
	saved, err := save(context.Background(), order)
	if err != nil {
		saved = Saved{Error: err.Error()}
	}
	if err := json.NewEncoder(os.Stdout).Encode(saved); err != nil {
		return 1
	}
	return 0
}

// save takes a checkpoint, and then removes old generations.
func save(ctx context.Context, order SaveOrder) (Saved, error) {
	dir, err := makeDirectory(order.Dir)
	if err != nil {
		return Saved{}, err
	}
	defer dir.Close()
	if err := order.Root.Check(); err != nil {
		return Saved{}, fmt.Errorf("pid %d: %w", order.Root.PID, err)
	}
	done, err := checkpoint(ctx, order, dir)
	if err != nil {
		return Saved{}, err
	}
	prune(ctx, dir, order.Keep)
	return Saved{
		Generation: done.GetGeneration(), At: time.Now().UTC(),
		Pause: time.Duration(done.GetPauseMicroseconds()) * time.Microsecond,
		Bytes: done.GetMemoryBytes(), Written: done.GetWrittenBytes(),
	}, nil
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
func checkpoint(ctx context.Context, order SaveOrder, dir *os.File) (*api.CheckpointDone, error) {
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
		Pids: []uint32{uint32(order.Root.PID)}, Files: token, Stop: order.Stop,
	}}})
	for {
		event, err := stream.Recv()
		if err != nil {
			return nil, api.FromStatus(err)
		}
		if done := event.GetDone(); done != nil {
			return done, nil
		}
	}
}

// prune removes old generations. What stays is removed after the next save.
func prune(ctx context.Context, dir *os.File, keep int) {
	if keep == 0 {
		return
	}
	opened, err := store.Open(dir)
	if err == nil {
		_, err = opened.Prune(ctx, store.Keep{Newest: keep})
		opened.Close()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "old generations stay:", err)
	}
}
