package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/phos-gpu/phos/cli/verb"
	"github.com/phos-gpu/phos/daemon/api"
)

// Exit statuses; the manual page explains them.
const (
	exitDone     = 0
	exitFailed   = 1
	exitUsage    = 2
	exitNoDaemon = 3
)

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

// errPhosdEnded means that phosd has ended in the middle of a request.
var errPhosdEnded = errors.New(
	"phosd ended before it had answered; what it had not completed is taken back, and programs run on",
)

// lost says in words that phosd is, where the connection was there: what gRPC says of that says
// nothing to a person.
func lost(err error) error {
	received := (*api.Error)(nil)
	switch {
	case !errors.As(err, &received):
		return err
	case strings.Contains(received.Text, "reading server preface") && strings.Contains(received.Text, net.ErrClosed.Error()):
		return api.ErrMute // gRPC has hung up
	}
	return errPhosdEnded
}

// handledSignals are the signals that end a command, or are a restored program's. What it was started to
// ignore, by nohup or in the background of a script, it ignores.
func handledSignals() []os.Signal {
	signals := []os.Signal{syscall.SIGTERM}
	for _, each := range []os.Signal{syscall.SIGINT, syscall.SIGHUP} {
		if !signal.Ignored(each) {
			signals = append(signals, each)
		}
	}
	return signals
}

func run(args []string, stdout, stderr io.Writer) int {
	ctx, cancel := signal.NotifyContext(context.Background(), handledSignals()...)
	defer cancel()
	name, err := commands().Run(ctx, args, verb.Streams{Out: stdout, Err: stderr})
	var ended *programEnded
	switch {
	case errors.As(err, &ended):
		return ended.status
	case err == nil:
		return exitDone
	case errors.Is(err, verb.ErrUsage):
		fmt.Fprintf(stderr, "%s: %v\n", name, err)
		return exitUsage
	case errors.Is(err, api.ErrNoDaemon), errors.Is(err, api.ErrMute):
		fmt.Fprintf(stderr, "%s: %v\n", name, lost(err))
		return exitNoDaemon
	}
	fmt.Fprintf(stderr, "%s: %v\n", name, err)
	return exitFailed
}

// cancelText is what is said while phosd takes something back.
const cancelText = "phosd takes it back; to leave without waiting for that, interrupt again"

// errAbandoned means that the user did not wait until something was taken back.
var errAbandoned = errors.New("cancelled, without waiting for the end")

// onCancel tells phosd when the context ends, because of a signal, and leaves it at a second one.
// What it returns must be called when phosd's answer is there.
func onCancel(ctx context.Context, leave context.CancelCauseFunc, tell func() error) (answered func()) {
	over := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		again := make(chan os.Signal, 1)
		signal.Notify(again, handledSignals()...)
		defer signal.Stop(again)
		if tell() != nil {
			return // the stream has ended, and whoever receives knows why
		}
		select {
		case <-again:
			leave(errAbandoned)
		case <-over:
		}
	})
	return func() {
		stop()
		close(over)
	}
}
