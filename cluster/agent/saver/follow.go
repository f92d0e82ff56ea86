package saver

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc"

	"github.com/phos-gpu/phos/daemon/api"
	"github.com/phos-gpu/phos/internal/linux/proc"
)

// follower follows a restored tree.
type follower struct {
	socket  string
	signals <-chan os.Signal
	client  *api.Client
	stream  grpc.BidiStreamingClient[api.RestoreCommand, api.RestoreEvent]
	// tree is the tree's name for the next phosd, root its root.
	tree string
	root proc.Identity
}

// errUnknownStatus is returned when the tree ended and no phosd came that knows how.
var errUnknownStatus = errors.New("the program ended while no phosd ran; its exit status is unknown")

const (
	// retryTime is the time between two attempts to reach the next phosd.
	retryTime = 200 * time.Millisecond
	// statusTime is how long to wait for a phosd after the tree has ended.
	statusTime = time.Minute
)

// dial opens a stream to phosd.
func (f *follower) dial(ctx context.Context) (err error) {
	f.close()
	if f.client, err = api.Dial(f.socket); err != nil {
		return err
	}
	f.stream, err = f.client.Daemon.Restore(ctx)
	return api.FromStatus(err)
}

// close closes the connection.
func (f *follower) close() {
	if f.client != nil {
		_ = f.client.Close() // it is not used again
		f.client = nil
	}
}

// receive returns the next event. Until it comes, it hands each signal on.
func (f *follower) receive(handle func(unix.Signal)) (*api.RestoreEvent, error) {
	type answer struct {
		event *api.RestoreEvent
		err   error
	}
	next, stream := make(chan answer, 1), f.stream
	go func() {
		event, err := stream.Recv()
		next <- answer{event, err}
	}()
	for {
		select {
		case got := <-next:
			return got.event, api.FromStatus(got.err)
		case caught := <-f.signals:
			number, _ := caught.(syscall.Signal) // always so on Linux
			handle(number)
		}
	}
}

// awaitRunning waits until the tree runs.
func (f *follower) awaitRunning() (*api.RestoreRunning, error) {
	for {
		event, err := f.receive(func(unix.Signal) {
			_ = f.stream.Send(&api.RestoreCommand{Command: &api.RestoreCommand_Cancel{Cancel: &api.RestoreCancel{}}})
		})
		if err != nil {
			return nil, err
		}
		if running := event.GetRunning(); running != nil {
			return running, nil
		}
	}
}

// follow returns how the root of the tree has ended.
func (f *follower) follow(ctx context.Context) (unix.WaitStatus, error) {
	for {
		event, err := f.receive(f.forward)
		switch {
		case errors.Is(err, api.ErrNoDaemon), errors.Is(err, io.EOF):
			if err := f.reattach(ctx); err != nil {
				return 0, err
			}
		case err != nil:
			return 0, err
		case event.GetEnded() != nil:
			return unix.WaitStatus(uint32(event.GetEnded().GetStatus())), nil
		case event.GetNotice() != "":
			fmt.Fprintln(os.Stderr, "phos:", event.GetNotice())
		}
	}
}

// forward passes a signal on to the root of the tree. SIGTERM is not: a supervisor sends it to all
// processes of the cgroup, and the tree has got it.
func (f *follower) forward(number unix.Signal) {
	if number != unix.SIGTERM && f.root.Check() == nil {
		_ = unix.Kill(f.root.PID, number) // it may have ended
	}
}

// reattach goes on with the next phosd.
func (f *follower) reattach(ctx context.Context) error {
	var ended time.Time
	for {
		select {
		case <-time.After(retryTime):
		case caught := <-f.signals:
			number, _ := caught.(syscall.Signal) // always so on Linux
			f.forward(number)
			continue
		}
		err := f.dial(ctx)
		if err == nil {
			_ = f.stream.Send(&api.RestoreCommand{ // if it fails, Recv returns the reason
				Command: &api.RestoreCommand_Follow{Follow: &api.RestoreFollow{Tree: f.tree}},
			})
			return nil
		}
		switch {
		case f.root.Check() == nil:
		case ended.IsZero():
			ended = time.Now()
		case time.Since(ended) > statusTime:
			return errUnknownStatus
		}
	}
}

// endAs ends this process as another one has ended. Of a signal it returns only if that fails.
func endAs(status unix.WaitStatus) int {
	if !status.Signaled() {
		return status.ExitStatus()
	}
	// The Go runtime has handlers for signals. A shell has none, and leaves no core file here.
	number := strconv.Itoa(int(status.Signal()))
	_ = unix.Exec("/bin/sh", []string{"sh", "-c", `ulimit -c 0; kill -"$1" $$`, "sh", number}, nil)
	return 128 + int(status.Signal())
}
