package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/phos-gpu/phos/daemon/rpc"
)

var stopVerb = verb{
	name:    "stop",
	summary: "stop phosd",
	about: `Stops phosd. While programs run it refuses and names one; with --force their sessions end first, and every
CUDA call they make from then on fails. (A phosd that is ended by a signal leaves programs running, for
the next phosd to adopt: that is how to update it.)

    pos_cli --stop
    pos_cli --stop --force`,
	prepare: func(flags *flag.FlagSet) func(context.Context, streams, []string) error {
		force := flags.Bool("force", false, "end the sessions of running programs")
		return func(ctx context.Context, to streams, _ []string) error { return stop(ctx, to, *force) }
	},
}

func stop(ctx context.Context, to streams, force bool) error {
	client, err := rpc.Dial(rpc.Socket())
	if err != nil {
		return err
	}
	defer client.Close()
	reply, err := client.Daemon.Stop(ctx, &rpc.StopRequest{Force: force})
	if err != nil {
		return err
	}
	for _, program := range reply.GetEnded() {
		fmt.Fprintf(to.out, "ended the session of pid %d (%s, %s)\n", program.GetPid(), program.GetUser(), printable(program.GetCommand()))
	}
	if err := waitGone(ctx, rpc.Socket()); err != nil {
		return err
	}
	fmt.Fprintln(to.out, "phosd has stopped")
	return nil
}

// waitGone returns when phosd has closed its socket: from then on another can be started.
func waitGone(ctx context.Context, socket string) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	for {
		if _, err := os.Lstat(socket); errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("phosd agreed to stop, but %s is still there", socket)
		case <-time.After(20 * time.Millisecond):
		}
	}
}
