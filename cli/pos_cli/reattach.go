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

// restoreClient is pos_cli's side of a restore's stream.
type restoreClient = grpc.BidiStreamingClient[api.RestoreCommand, api.RestoreEvent]

// currentStream returns the stream to the phosd that serves now.
func (v *follower) currentStream() restoreClient {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.stream
}

// errUnknownStatus is returned when the program ended and no phosd came that knows its exit status.
var errUnknownStatus = errors.New("the program ended while no phosd ran; its exit status is unknown")

const (
	// retryInterval is the time between two attempts to reach the next phosd.
	retryInterval = 200 * time.Millisecond
	// exitStatusTimeout is how long reattach waits for a phosd after the program has ended. For that
	// long the restorer keeps the exit status.
	exitStatusTimeout = time.Minute
)

// streamEnded handles a stream that ended before the program. If the program runs, its input and
// output continue, and pos_cli reattaches to the next phosd, which adopts the program.
func (v *follower) streamEnded(ctx context.Context, err error) error {
	if errors.Is(err, io.EOF) {
		err = errors.New("phosd closed the connection")
	}
	err = api.FromStatus(err)
	switch {
	case v.pid == 0:
		return err
	case ctx.Err() == nil && v.tree != "" && errors.Is(err, api.ErrNoDaemon):
		return v.reattach(ctx)
	}
	return fmt.Errorf("pid %d keeps running without pos_cli: %w", v.pid, err)
}

// reattach retries until the next phosd accepts the stream.
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

// redial opens a new stream for the same tree.
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
		err = nil // Recv returns the reason
	}
	if err != nil {
		return api.FromStatus(err)
	}
	v.stream = stream
	return nil
}

// closeClient closes the connection that redial made, if any.
func (v *follower) closeClient() {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.client != nil {
		_ = v.client.Close() // the connection is not used again
		v.client = nil
	}
}
