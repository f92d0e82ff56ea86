package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/phos-gpu/phos/cli/cluster/launches"
	"github.com/phos-gpu/phos/cli/cluster/reach"
	"github.com/phos-gpu/phos/cli/humanize"
	"github.com/phos-gpu/phos/cli/launch"
	"github.com/phos-gpu/phos/cli/verb"
	cluster "github.com/phos-gpu/phos/cluster/api"
	"github.com/phos-gpu/phos/daemon/api"
)

// Exit statuses; the manual page explains them.
const (
	exitDone     = 0
	exitFailed   = 1
	exitUsage    = 2
	exitNoDaemon = 3
)

func main() { os.Exit(run(programName(os.Args[0]), os.Args[1:], os.Stdout, os.Stderr)) }

// programName returns the name that the command goes by. The link phos is for
// launches on a cluster.
func programName(path string) string {
	if filepath.Base(path) == "phos" {
		return "phos"
	}
	return "pos_cli"
}

// errPhosdEnded is returned when phosd ended during a request.
var errPhosdEnded = errors.New(
	"phosd ended before it answered; unfinished work is undone, and programs keep running",
)

// probeTimeout is how long explainLost waits for an answer of phosd.
const probeTimeout = 2 * time.Second

// explainLost returns an error for people if the connection to phosd broke during a request. gRPC
// uses one status code for a peer that has ended and for one that accepts connections and never
// speaks; so explainLost asks the socket again. Other errors are returned unchanged.
func explainLost(ctx context.Context, err error, socket string, timeout time.Duration) error {
	var received *api.Error
	switch {
	case !errors.As(err, &received):
		return err
	case silent(ctx, socket, timeout):
		return api.ErrNoAnswer
	}
	return errPhosdEnded
}

// silent reports whether a process listens at the socket but does not answer.
func silent(ctx context.Context, socket string, timeout time.Duration) bool {
	client, err := api.Dial(socket)
	if err != nil {
		return errors.Is(err, syscall.EAGAIN) // the listener's queue is full
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	_, err = client.Daemon.Version(ctx, &api.VersionRequest{})
	return errors.Is(err, context.DeadlineExceeded)
}

// handledSignals returns the signals that cancel a command, or that are forwarded to a restored
// program. Signals that pos_cli was started to ignore, by nohup or in the background of a script,
// stay ignored.
func handledSignals() []os.Signal {
	signals := []os.Signal{syscall.SIGTERM}
	for _, each := range []os.Signal{syscall.SIGINT, syscall.SIGHUP} {
		if !signal.Ignored(each) {
			signals = append(signals, each)
		}
	}
	return signals
}

func run(program string, args []string, stdout, stderr io.Writer) int {
	ctx, cancel := signal.NotifyContext(context.Background(), handledSignals()...)
	defer cancel()
	name, err := commands(program).Run(ctx, args, verb.Streams{Out: stdout, Err: stderr})
	var ended *programEnded
	var notStarted *launch.NotStartedError
	var child *launch.EndedError
	var launched *launches.EndedError
	var remote *launches.ExecError
	switch {
	case errors.As(err, &ended):
		return ended.status
	case errors.As(err, &launched):
		return launched.Status() // its state was printed
	case errors.As(err, &remote):
		if remote.Text != "" {
			fmt.Fprintf(stderr, "%s: %s\n", name, humanize.Error(err))
		}
		return remote.Status()
	case errors.As(err, &child):
		return child.Status()
	case errors.As(err, &notStarted):
		fmt.Fprintf(stderr, "%s: %s\n", name, humanize.Error(err))
		return notStarted.Status()
	case err == nil:
		return exitDone
	case errors.Is(err, verb.ErrUsage):
		fmt.Fprintf(stderr, "%s: %s\n", name, humanize.Error(err))
		return exitUsage
	case errors.Is(err, reach.ErrNoCluster), errors.Is(err, cluster.ErrUnavailable):
		fmt.Fprintf(stderr, "%s: %s\n", name, humanize.Error(err))
		return exitNoDaemon
	case errors.Is(err, api.ErrNoDaemon), errors.Is(err, api.ErrNoAnswer):
		fmt.Fprintf(stderr, "%s: %s\n", name, humanize.Error(explainLost(ctx, err, api.Socket(), probeTimeout)))
		return exitNoDaemon
	}
	fmt.Fprintf(stderr, "%s: %s\n", name, humanize.Error(err))
	return exitFailed
}

// cancelText is printed while phosd undoes a cancelled request.
const cancelText = "cancelling; Ctrl-C again leaves at once"

// errAbandoned is returned when a second signal ended the wait for the undo.
var errAbandoned = errors.New("cancelled, without waiting for the end")

// onCancel calls sendCancel when a signal ends ctx, and abandon(errAbandoned) at a second signal.
// The caller must call answered when phosd has answered.
func onCancel(ctx context.Context, abandon context.CancelCauseFunc, sendCancel func() error) (answered func()) {
	over := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		again := make(chan os.Signal, 1)
		signal.Notify(again, handledSignals()...)
		defer signal.Stop(again)
		if sendCancel() != nil {
			return // the stream has ended; Recv returns the reason
		}
		select {
		case <-again:
			abandon(errAbandoned)
		case <-over:
		}
	})
	return func() {
		stop()
		close(over)
	}
}
