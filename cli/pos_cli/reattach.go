package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"google.golang.org/grpc"

	"github.com/phos-gpu/phos/daemon/api"
	"github.com/phos-gpu/phos/internal/linux/proc"
)

// restoreClient is that of a restore.
type restoreClient = grpc.BidiStreamingClient[api.RestoreCommand, api.RestoreEvent]

func (v *follower) currentStream() restoreClient {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.stream
}

// errUnknownStatus means that the program has ended, and nobody can say how.
var errUnknownStatus = errors.New("the program has ended while no phosd ran; its exit status is not known")

const (
	// retryInterval lies between two looks for the next phosd.
	retryInterval = 200 * time.Millisecond
	// exitStatusTimeout is how long a phosd is waited for that can say how a program has ended: its keeper is
	// asked for it that long.
	exitStatusTimeout = time.Minute
)

// streamEnded is the end of a conversation without the end of the program. While that runs, its input
// and output flow on, and the next phosd, which has adopted it, is gone on with.
func (v *follower) streamEnded(ctx context.Context, err error) error {
	if errors.Is(err, io.EOF) {
		err = errors.New("phosd ended the conversation")
	}
	err = api.FromStatus(err)
	switch {
	case v.pid == 0:
		return err
	case ctx.Err() == nil && v.tree != "" && errors.Is(err, api.ErrNoDaemon):
		return v.reattach(ctx)
	}
	return fmt.Errorf("pid %d runs on without pos_cli: %w", v.pid, err)
}

// reattach waits for the next phosd.
func (v *follower) reattach(ctx context.Context) error {
	var ended time.Time
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(retryInterval):
		}
		err := v.redial(ctx)
		if err == nil || !errors.Is(err, api.ErrNoDaemon) && !proc.Unknown(err) {
			return err
		}
		switch {
		case v.program.Check() == nil:
		case ended.IsZero():
			ended = time.Now()
		case time.Since(ended) > exitStatusTimeout:
			return errUnknownStatus
		}
	}
}

// redial goes on with the conversation at whatever phosd there is.
func (v *follower) redial(ctx context.Context) error {
	v.closeClient()
	client, err := api.Dial(api.Socket())
	if err != nil {
		return err
	}
	stream, err := client.Daemon.Restore(ctx)
	if err == nil {
		err = stream.Send(&api.RestoreCommand{Command: &api.RestoreCommand_Follow{Follow: &api.RestoreFollow{Tree: v.tree}}})
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.client = client
	if errors.Is(err, io.EOF) {
		err = nil // why is told to whoever receives
	}
	if err != nil {
		return api.FromStatus(err)
	}
	v.stream = stream
	return nil
}

// closeClient closes the connection to a phosd that was found again.
func (v *follower) closeClient() {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.client != nil {
		_ = v.client.Close() // nothing more is expected of it
		v.client = nil
	}
}
